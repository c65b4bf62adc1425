//! Tables, written and read back; Parquet by pyarrow, where that is installed.

use std::process::Command;

use super::*;

fn sheet() -> Sheet {
    let rows = [
        (Some(1u64), Some(0.5), Some("plain".to_owned())),
        (None, None, Some("with, \"quotes\"\nand lines".to_owned())),
        (Some(1 << 60), Some(-1e300), Some("=1+1".to_owned())),
    ];
    let mut sheet = Sheet::new(rows.len());
    sheet.whole("count", &rows, |row| row.0);
    sheet.real("figure", &rows, |row| row.1);
    sheet.text("word", &rows, |row| row.2.clone());
    sheet
}

fn written(sheet: &Sheet, form: Form) -> Vec<u8> {
    let mut out = Vec::new();
    sheet.clone().write(form, &mut out).unwrap();
    out
}

#[test]
fn csv_quotes_what_must_be() {
    let text = String::from_utf8(written(&sheet(), Form::Csv)).unwrap();
    let lines = "count,figure,word\r\n1,0.5,plain\r\n,,\"with, \"\"quotes\"\"\nand lines\"\r\n1152921504606846976,-1e+300,'=1+1\r\n";
    assert_eq!(text, lines);
}

#[test]
fn json_lines_have_every_key() {
    let text = String::from_utf8(written(&sheet(), Form::JsonLines)).unwrap();
    let values: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 3);
    assert_eq!(values[1]["count"], Value::Null);
    assert_eq!(values[1]["word"], "with, \"quotes\"\nand lines");
    assert_eq!(values[2]["count"], 1u64 << 60);
}

#[test]
fn readings_of_the_host_have_every_column() {
    let point = HostPoint {
        time_s: 1_795_299_041.25,
        span_s: Some(10.0),
        cpu_busy: None,
        memory_used_bytes: 1 << 33,
        swap_used_bytes: 0,
        cpu_stalled: Some(0.5),
        memory_stalled: None,
        memory_full_stalled: None,
        io_stalled: None,
        io_full_stalled: None,
        temperature_celsius: Some(41.5),
        frequency_mhz: None,
    };
    let text = String::from_utf8(written(&host(&[point]), Form::JsonLines)).unwrap();
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told, serde_json::to_value(point).unwrap(), "as `host --json` has it");
    let names = written(&host(&[]), Form::Csv);
    assert!(names.starts_with(b"time_s,span_s,cpu_busy,memory_used_bytes,"));
    assert!(written(&host(&[point]), Form::Parquet).ends_with(b"PAR1"));
}

/// Numbers from 0 on, that many sheets of so many each.
fn in_parts(form: Form, sheets: usize, rows: usize) -> Vec<u8> {
    let (mut table, mut out) = (Table::new(form), Vec::new());
    for at in 0..sheets {
        let numbers: Vec<u64> = (at * rows..(at + 1) * rows).map(|number| number as u64).collect();
        let mut sheet = Sheet::new(rows);
        sheet.whole("count", &numbers, |number| Some(*number));
        sheet.text("word", &numbers, |number| Some(format!("number {number}")));
        table.add(sheet, &mut out).unwrap();
    }
    table.end(&mut out).unwrap();
    out
}

#[test]
fn parts_make_one_table() {
    for form in [Form::Csv, Form::JsonLines, Form::Parquet] {
        assert_eq!(in_parts(form, 5, 4), in_parts(form, 1, 20), "{form:?}");
    }
    let text = String::from_utf8(in_parts(Form::Csv, 3, 2)).unwrap();
    assert_eq!(text.lines().count(), 7, "names once: {text}");
}

#[test]
fn parquet_is_read_by_others() {
    let python = std::env::var("PINFOLD_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "import pyarrow.parquet"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        let reason = "skipped: no python3 with pyarrow (PINFOLD_PYTHON names one)\n";
        let _ = std::io::stdout().write_all(reason.as_bytes());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (full, empty) = (dir.path().join("full.parquet"), dir.path().join("empty.parquet"));
    std::fs::write(&full, written(&sheet(), Form::Parquet)).unwrap();
    std::fs::write(&empty, written(&jobs(&[]), Form::Parquet)).unwrap();
    // Several groups of rows.
    let many = dir.path().join("many.parquet");
    std::fs::write(&many, in_parts(Form::Parquet, 3, GROUP_ROWS / 2 + 10)).unwrap();
    let script = "import sys, json, pyarrow.parquet as p\n\
                  t = p.read_table(sys.argv[1])\n\
                  print(json.dumps(t.to_pylist()))\n\
                  m = p.ParquetFile(sys.argv[3])\n\
                  c = m.read().column('count')\n\
                  print(json.dumps([m.num_row_groups, c.null_count, c.to_pylist() == list(range(m.metadata.num_rows)), len(c)]))\n\
                  e = p.read_table(sys.argv[2])\n\
                  print(json.dumps([e.num_rows, e.schema.names, [str(f.type) for f in e.schema][:2]]))";
    let output = Command::new(&python).arg("-c").arg(script).args([&full, &empty, &many]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let read: Vec<Value> = serde_json::from_str(lines.next().unwrap()).unwrap();
    let wrote = String::from_utf8(written(&sheet(), Form::JsonLines)).unwrap();
    let wrote: Vec<Value> = wrote.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, wrote);
    let many: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(many, serde_json::json!([2, 0, true, 3 * (GROUP_ROWS / 2 + 10)]));
    let empty: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(empty[0], 0);
    assert_eq!(empty[1].as_array().unwrap().len(), jobs(&[]).columns.len());
    assert_eq!(empty[2], serde_json::json!(["int64", "string"]));
}

#[test]
fn parquet_frames_itself() {
    let bytes = written(&sheet(), Form::Parquet);
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let length = bytes.len();
    let footer = u32::from_le_bytes(bytes[length - 8..length - 4].try_into().unwrap()) as usize;
    assert!(footer > 50 && footer < length - 12, "{footer} of {length}");
}
