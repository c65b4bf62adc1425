//! Jobs with their memory over time: a table of jobs, and a line of readings for each.
//!
//! The table is of comma-separated values with the columns `id`, `task` (the class), `t0_unix` and `seconds` (first
//! reading, and from there to the last), `input_bytes`, `mem_req_bytes` and `mem_peak_mb`, as public records of
//! workflow tasks have them. A line of readings is the `id` and then `DT:MB` or `DT:MB:CPU`, with blanks between:
//! tenths of a second since the reading before, and 10^6 bytes. Absent: what is advised.

use std::collections::BTreeMap;

use pinfold_advise::{Curve, Features, Row};

use super::table::fields;

/// A run is so much longer than from its first reading to its last one: they are two seconds apart.
const APART_S: f64 = 2.0;
/// The unit of memory, in bytes.
const MB: f64 = 1e6;
/// From so many of it on, a number is a mistake: 2^40.
const MB_MAX: f64 = (1u64 << 40) as f64;

const COLUMNS: [&str; 7] =
    ["id", "task", "t0_unix", "seconds", "input_bytes", "mem_req_bytes", "mem_peak_mb"];

/// A job that ran.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Job {
    pub(super) id: String,
    /// Place of its class in [`Jobs::classes`].
    pub(super) class: usize,
    pub(super) submit_s: f64,
    pub(super) end_s: f64,
    pub(super) row: Row,
    pub(super) curve: Curve,
}

/// All jobs, in the order of their submission.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub(super) jobs: Vec<Job>,
    pub(super) classes: Vec<String>,
}

impl Jobs {
    /// Reads both texts; jobs without memory are left out. A job's peak is the largest of its readings; without any
    /// it held `mem_peak_mb` from its start. The error names the line: in `table` the header is 0, in `series` the
    /// first is 1.
    pub(super) fn read(table: &str, series: &str) -> Result<Self, String> {
        let mut readings = readings(series)?;
        let mut lines = table.lines().enumerate();
        let head = lines.next().map_or("", |(_, line)| line);
        let head = fields(head).map_err(|error| format!("line 0: {error}"))?;
        let mut places = BTreeMap::new();
        for name in COLUMNS {
            let place = head.iter().position(|column| column == name);
            places.insert(name, place.ok_or_else(|| format!("line 0: the column {name} is missing"))?);
        }
        let (mut all, mut classes) = (Self::default(), BTreeMap::new());
        for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
            let wrong = |error: String| format!("line {line}: {error}");
            let fields = fields(text).map_err(wrong)?;
            let field =
                |name: &str| places.get(name).and_then(|&at| fields.get(at)).map_or("", |text| text.trim());
            let Some(job) = job(field, &mut readings).map_err(wrong)? else { continue };
            let name = field("task").to_owned();
            let class = *classes.entry(name.clone()).or_insert_with(|| {
                all.classes.push(name);
                all.classes.len() - 1
            });
            all.jobs.push(Job { class, ..job });
        }
        all.jobs.sort_by(|a, b| a.submit_s.total_cmp(&b.submit_s));
        Ok(all)
    }
}

type Readings = BTreeMap<String, Vec<(f64, u64)>>;

/// The job that a line tells of, without its class; `None`: nothing was measured of it.
fn job<'a>(field: impl Fn(&str) -> &'a str, readings: &mut Readings) -> Result<Option<Job>, String> {
    let number = |name: &str| match field(name) {
        "" => Ok(None),
        text => {
            finite(text).map(Some).ok_or_else(|| format!("{name} is `{text}`, which is no finite number"))
        }
    };
    let (Some(start_s), Some(seconds)) = (number("t0_unix")?, number("seconds")?) else { return Ok(None) };
    let Some(peak_mb) = number("mem_peak_mb")?.filter(|&peak| peak > 0.0) else { return Ok(None) };
    if seconds < 0.0 || peak_mb > MB_MAX {
        return Err(format!("seconds {seconds} or mem_peak_mb {peak_mb} cannot be"));
    }
    let (id, wall_s) = (field("id").to_owned(), seconds + APART_S);
    let peak = bytes(peak_mb);
    let read = readings.remove(&id).unwrap_or_default();
    let curve = Curve::of(read, wall_s).or_else(|| Curve::of([(0.0, peak)], wall_s));
    let curve = curve.ok_or_else(|| "it has no length".to_owned())?;
    let request_bytes = number("mem_req_bytes")?.filter(|&request| request > 0.0);
    let features = Features {
        input_bytes: number("input_bytes")?,
        request_bytes: request_bytes.map(|request| bytes(request / MB)),
        ..Features::default()
    };
    let (end_s, wall_s) = (start_s + wall_s, curve.wall_s());
    let row = Row { features, peak_bytes: curve.peak_bytes(), wall_s };
    Ok(Some(Job { id, class: 0, submit_s: start_s, end_s, row, curve }))
}

fn readings(series: &str) -> Result<Readings, String> {
    let mut all = Readings::new();
    for (line, text) in series.lines().enumerate() {
        let mut words = text.split_whitespace();
        let Some(id) = words.next() else { continue };
        let mut at_s = 0.0;
        let mut reading = |word: &str| {
            let mut parts = word.split(':');
            let (after, mb) = (finite(parts.next()?)?, finite(parts.next()?)?);
            at_s += after / 10.0;
            (after >= 0.0 && (0.0..=MB_MAX).contains(&mb)).then(|| (at_s, bytes(mb)))
        };
        let read = words.map(|word| {
            reading(word).ok_or_else(|| format!("series, line {}: `{word}` is no reading", line + 1))
        });
        all.insert(id.to_owned(), read.collect::<Result<_, _>>()?);
    }
    Ok(all)
}

fn finite(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

/// Whole bytes of so many MB, rounded up.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
fn bytes(mb: f64) -> u64 {
    (mb * MB).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "id,task,instance,t0_unix,seconds,input_bytes,mem_req_bytes,mem_peak_mb";

    fn read(lines: &str, series: &str) -> Result<Jobs, String> {
        Jobs::read(&format!("{HEAD}\n{lines}"), series)
    }

    #[test]
    fn jobs_and_their_readings() {
        let lines = "7,sort,\"x, (a)\",200,4,5,8000000000,1500\n8,sort,y,100.5,0.5,,,2\n9,cut,z,1,1,1,1,\n";
        let jobs = read(lines, "7 0:10:99 20:1500: 20:3\n8 0:2\n\n77 0:5\n").unwrap();
        assert_eq!(jobs.classes, ["sort"], "nothing was measured of the last");
        let seen: Vec<_> = jobs
            .jobs
            .iter()
            .map(|job| (job.id.as_str(), job.submit_s, job.end_s, job.row.peak_bytes))
            .collect();
        assert_eq!(seen, [("8", 100.5, 103.0, 2_000_000), ("7", 200.0, 206.0, 1_500_000_000)]);
        let features = jobs.jobs[1].row.features;
        assert_eq!((features.input_bytes, features.request_bytes), (Some(5.0), Some(8_000_000_000)));
        let used = (10.0 * 2.0 + 1500.0 * 2.0 + 3.0 * 2.0) / 3.6e6;
        assert!((jobs.jobs[1].curve.used_gbh() - used).abs() < 1e-12);
        assert_eq!(Some(jobs.jobs[1].row.wall_s), Some(6.0));
    }

    #[test]
    fn one_without_readings_held_its_peak_from_the_start() {
        let jobs = read("7,sort,x,200,4,5,,1500\n", "").unwrap();
        assert!((jobs.jobs[0].curve.used_gbh() - 1.5 * 6.0 / 3600.0).abs() < 1e-9);
        assert!(read("", "").unwrap().jobs.is_empty());
    }

    proptest::proptest! {
        /// Whatever the files hold, they are read or refused.
        #[test]
        fn odd_files_are_answered(lines in "[0-9a,.\"\n-]{0,80}", series in "[0-9:. \ne-]{0,80}") {
            let _ = read(&lines, &series);
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let wrong = |lines: &str, series: &str, want: &str| {
            let error = read(lines, series).unwrap_err();
            assert!(error.contains(want), "{error}");
        };
        assert!(Jobs::read("id,task\n", "").unwrap_err().contains("line 0: the column t0_unix is missing"));
        assert!(Jobs::read("", "").unwrap_err().contains("line 0: the column id is missing"));
        wrong("7,a,x,200,4,5,,x\n", "", "line 1: mem_peak_mb is `x`");
        wrong("7,a,x,200,-4,5,,1\n", "", "line 1: seconds -4");
        wrong("\n7,a,\"x,200,4,5,,1\n", "", "line 2: a quotation mark is not closed");
        for series in ["7 0", "7 0:", "7 x:1", "7 0:-1", "7 -3:1", "7 0:1 1:1e300", "7 0:NaN"] {
            wrong("", series, "series, line 1: `");
        }
    }
}
