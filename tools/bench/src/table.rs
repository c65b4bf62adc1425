//! Tables in Markdown, and numbers as people read them.
//!
//! Pure text; no figure is computed here.

use crate::stats::Median;

/// A table, aligned so that it reads well in a terminal too.
pub(crate) fn markdown(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            // The first column is words, the others are figures.
            if column == 0 { format!(" {cell:<width$} ") } else { format!(" {cell:>width$} ") }
        });
        format!("|{}|\n", padded.collect::<Vec<_>>().join("|"))
    };
    let mut text = line(head.to_vec());
    let rule = widths.iter().enumerate().map(|(column, width)| match column {
        0 => "-".repeat(width + 2),
        _ => "-".repeat(width + 1) + ":",
    });
    text += &format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
    for row in rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    text
}

/// A median with its interval, `digits` after the point: `12.3 [12.0, 12.9]`.
pub(crate) fn with_interval(median: &Median, digits: usize) -> String {
    if median.count == 1 {
        return format!("{:.digits$}", median.value);
    }
    format!("{:.digits$} [{:.digits$}, {:.digits$}]", median.value, median.low, median.high)
}

/// Bytes in the largest unit that leaves a figure above 1.
pub(crate) fn bytes(bytes: u64) -> String {
    let amount = bytes as f64;
    if bytes >= 1 << 30 {
        format!("{:.2} GiB", amount / f64::from(1 << 30))
    } else {
        format!("{:.0} MiB", amount / f64::from(1 << 20))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned() {
        let rows = vec![vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "100".to_owned()]];
        let table = markdown(&["way", "s"], &rows);
        assert_eq!(table, "| way  |   s |\n|------|----:|\n| a    |   1 |\n| long | 100 |\n");
    }

    #[test]
    fn sizes() {
        assert_eq!(bytes(0), "0 MiB");
        assert_eq!(bytes(300 << 20), "300 MiB");
        assert_eq!(bytes(3 << 29), "1.50 GiB");
    }
}
