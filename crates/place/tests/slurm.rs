//! The layout against what Slurm answered: rows harvested from running clusters, in `fixtures/slurm-layouts`.

mod rows;

use rows::{Row, compare, files};

#[test]
fn show() {
    let only = std::env::var("LAYOUT_FILE").unwrap_or_default();
    let show: usize = std::env::var("LAYOUT_SHOW").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let pattern = std::env::var("LAYOUT_OPTS").unwrap_or_default();
    for file in files() {
        if !file.name.contains(&only) {
            continue;
        }
        let rows: Vec<Row> = file.rows();
        let mut equal = 0;
        let mut shown = 0;
        for row in &rows {
            match compare(row) {
                Ok(()) => equal += 1,
                Err(difference) => {
                    if shown < show && row.opts.join(" ").contains(&pattern) {
                        shown += 1;
                        println!("{difference}\n");
                    }
                }
            }
        }
        println!(
            "{}: {equal} of {} ({:.2} %)",
            file.name,
            rows.len(),
            100.0 * equal as f64 / rows.len() as f64
        );
    }
}
