//! The table that is replayed: comma-separated values with a header, checked line by line.
//!
//! Fields may stand in double quotes (RFC 4180). Columns come in any order; unknown columns are skipped.

use std::collections::BTreeMap;

use pinfold_advise::{Features, NUMBERS, Row};

/// Bytes from which on a number is a mistake: 2^60.
const BYTES_MAX: f64 = (1u64 << 60) as f64;

/// A job of the table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Job {
    /// Its line, the header being 0.
    pub(super) line: usize,
    /// Place of its class in [`Table::classes`].
    pub(super) class: usize,
    /// When it was submitted and when it ended, in seconds.
    pub(super) times: Option<(f64, f64)>,
    /// Known from the start and not scored.
    pub(super) train: bool,
    pub(super) request_bytes: Option<u64>,
    pub(super) row: Row,
}

/// All jobs, in the file's order.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) jobs: Vec<Job>,
    pub(super) classes: Vec<String>,
}

const COLUMNS: [&str; 9] = [
    "class",
    "submit_s",
    "end_s",
    "train",
    "input_bytes",
    "request_bytes",
    "peak_bytes",
    "wall_s",
    "numbers",
];
/// Columns that must be there, and be filled in.
const NEEDED: [&str; 3] = ["class", "peak_bytes", "wall_s"];

impl Table {
    /// Reads a table; the error names the line, the header being 0.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.lines().enumerate();
        let head = lines.next().map(|(_, line)| fields(line)).transpose();
        let head = head.map_err(|error| format!("line 0: {error}"))?.unwrap_or_default();
        let places = places(&head)?;
        let (mut table, mut classes) = (Self::default(), BTreeMap::new());
        for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
            let fields = fields(text).map_err(|error| format!("line {line}: {error}"))?;
            if fields.len() != head.len() {
                return Err(format!(
                    "line {line}: {} fields, and the header has {}",
                    fields.len(),
                    head.len()
                ));
            }
            let field =
                |name: &str| places.get(name).and_then(|&at| fields.get(at)).map_or("", |text| text.trim());
            let (name, mut job) = job(field).map_err(|error| format!("line {line}: {error}"))?;
            job.line = line;
            job.class = *classes.entry(name.to_owned()).or_insert_with(|| {
                table.classes.push(name.to_owned());
                table.classes.len() - 1
            });
            table.jobs.push(job);
        }
        Ok(table)
    }
}

fn places(head: &[String]) -> Result<BTreeMap<&str, usize>, String> {
    let mut places = BTreeMap::new();
    for (at, name) in head.iter().enumerate() {
        let name = name.trim();
        if COLUMNS.contains(&name) && places.insert(name, at).is_some() {
            return Err(format!("line 0: the column {name} is there twice"));
        }
    }
    match NEEDED.iter().find(|name| !places.contains_key(*name)) {
        Some(name) => {
            Err(format!("line 0: the column {name} is missing; the columns are {}", COLUMNS.join(",")))
        }
        None => Ok(places),
    }
}

/// The job of a line, and its class; its line and the place of its class are not known here.
fn job<'a>(field: impl Fn(&str) -> &'a str) -> Result<(&'a str, Job), String> {
    let number = |name: &str, least: f64| match field(name) {
        "" => Ok(None),
        text => match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= least => Ok(Some(number)),
            Ok(number) if number.is_finite() => Err(format!("{name} is {text}, less than {least}")),
            _ => Err(format!("{name} is `{text}`, which is no finite number")),
        },
    };
    let needed = |name: &str| number(name, 0.0)?.ok_or_else(|| format!("{name} is empty"));
    let bytes = |name: &str, value: f64| match value {
        value if value > BYTES_MAX => Err(format!("{name} is {value}, more than 2^60")),
        value => Ok(bytes(value)),
    };
    let name = field("class");
    if name.is_empty() {
        return Err("class is empty".to_owned());
    }
    let times = match (number("submit_s", f64::MIN)?, number("end_s", f64::MIN)?) {
        // An end of whole seconds may lie before a submission of the same second: no mistake.
        (Some(submit), Some(end)) => Some((submit, end)),
        _ => None,
    };
    let train = match field("train") {
        "" | "0" => false,
        "1" => true,
        other => return Err(format!("train is `{other}`; 0 or 1 is expected")),
    };
    let request = number("request_bytes", 0.0)?.filter(|&request| request > 0.0);
    let request_bytes = request.map(|request| bytes("request_bytes", request)).transpose()?;
    let mut numbers = numbers(field("numbers"))?;
    // A program that sizes itself by its request (Java) holds as much: the request may predict, like any number of a
    // command.
    numbers[NUMBERS - 1] = numbers[NUMBERS - 1].or(request);
    let features = Features { input_bytes: number("input_bytes", 0.0)?, numbers };
    let peak_bytes = bytes("peak_bytes", needed("peak_bytes")?)?;
    let row = Row { features, peak_bytes, wall_s: needed("wall_s")? };
    Ok((name, Job { line: 0, class: 0, times, train, request_bytes, row }))
}

/// Numbers with blanks between them; a `-` stands for an unknown number.
fn numbers(text: &str) -> Result<[Option<f64>; NUMBERS], String> {
    let mut numbers = [None; NUMBERS];
    for (at, word) in text.split_whitespace().enumerate() {
        let number = numbers.get_mut(at).ok_or_else(|| format!("numbers has more than {NUMBERS}"))?;
        *number = match word {
            "-" => None,
            word => Some(
                word.parse::<f64>()
                    .ok()
                    .filter(|number| number.is_finite())
                    .ok_or_else(|| format!("numbers has `{word}`, which is no finite number"))?,
            ),
        };
    }
    Ok(numbers)
}

/// Whole bytes, rounded up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and 2^60, as was checked"
)]
fn bytes(value: f64) -> u64 {
    value.ceil() as u64
}

/// The fields of a line.
pub(super) fn fields(line: &str) -> Result<Vec<String>, String> {
    if !line.contains('"') {
        return Ok(line.split(',').map(str::to_owned).collect());
    }
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let last = fields.len() - 1;
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                fields[last].push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => fields[last].push(letter),
        }
    }
    if quoted { Err("a quotation mark is not closed".to_owned()) } else { Ok(fields) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn wrong(text: &str, want: &str) {
        let got = Table::read(text).unwrap_err();
        assert!(got.contains(want), "{got}");
    }

    #[test]
    fn a_table_is_read_in_any_order_of_columns() {
        let text =
            "\u{feff}wall_s,other,class,peak_bytes,train\r\n60,x,\"a,\"\"b\"\"\",5.5,1\r\n\r\n1,,c,0,\r\n";
        let table = Table::read(text).unwrap();
        assert_eq!(table.classes, ["a,\"b\"", "c"]);
        let seen: Vec<_> =
            table.jobs.iter().map(|job| (job.line, job.class, job.train, job.row.peak_bytes)).collect();
        assert_eq!(seen, [(1, 0, true, 6), (3, 1, false, 0)]);
        assert!(Table::read("class,peak_bytes,wall_s\n").unwrap().jobs.is_empty());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        wrong("", "line 0: the column class is missing");
        wrong("class,wall_s\n", "line 0: the column peak_bytes is missing");
        wrong("class,class,peak_bytes,wall_s\n", "line 0: the column class is there twice");
        let line = |fields: &str, want: &str| {
            let head = "class,submit_s,end_s,train,input_bytes,request_bytes,peak_bytes,wall_s";
            wrong(&format!("{head}\na,0,1,0,1,1,1,1\n{fields}\n"), &format!("line 2: {want}"));
        };
        line("a,0,1,0,1,1,NaN,1", "peak_bytes is `NaN`");
        line("a,0,1,0,1,1,inf,1", "peak_bytes is `inf`");
        line("a,0,1,0,1,1,-1,1", "peak_bytes is -1, less than 0");
        line("a,0,1,0,1,1,1e30,1", "peak_bytes is 1000000000000000000000000000000, more than 2^60");
        line("a,0,1,0,1,1,,1", "peak_bytes is empty");
        line("a,0,1,0,1,1,1,", "wall_s is empty");
        line("a,0,1,0,-3,1,1,1", "input_bytes is -3");
        line("a,0,1,0,1,x,1,1", "request_bytes is `x`");
        line("a,0,1,2,1,1,1,1", "train is `2`");
        line(",0,1,0,1,1,1,1", "class is empty");
        line("a,0,1", "3 fields, and the header has 8");
        let numbers = |text: &str| format!("class,peak_bytes,wall_s,numbers\na,1,1,{text}\n");
        let told = Table::read(&numbers("1.5 - -3")).unwrap().jobs[0].row.features.numbers;
        assert_eq!(told, [Some(1.5), None, Some(-3.0), None]);
        wrong(&numbers("1 2 3 4 5"), "line 1: numbers has more than 4");
        wrong(&numbers("1 x"), "line 1: numbers has `x`");
        line("\"a,0,1,0,1,1,1,1", "a quotation mark is not closed");
    }
}
