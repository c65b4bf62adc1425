//! SQL statements that write and read whole rows.

use super::rows;

/// Statements assembled from the lists of columns.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) insert_job: String,
    pub(super) update_job: String,
    pub(super) select_job: String,
    pub(super) insert_sample: String,
    pub(super) insert_decision: String,
    pub(super) put_process: String,
    pub(super) put_file: String,
    pub(super) put_node: String,
}

impl Words {
    pub(super) fn new() -> Self {
        // Constant columns are not written again, so two of four indexes stay unchanged.
        let changing = rows::JOB.iter().enumerate().filter(|(_, name)| !rows::JOB_FIXED.contains(name));
        let update: Vec<String> = changing.map(|(at, name)| format!("{name}=?{}", at + 1)).collect();
        Self {
            insert_job: insert("INSERT INTO jobs", &rows::JOB),
            update_job: format!("UPDATE jobs SET {} WHERE job=?1", update.join(",")),
            select_job: format!("SELECT {} FROM jobs ", rows::JOB.join(",")),
            // Of two readings in the same microsecond the later replaces the earlier.
            insert_sample: insert("INSERT OR REPLACE INTO samples", &rows::SAMPLE),
            insert_decision: insert("INSERT INTO decisions", &rows::DECISION),
            put_process: insert("INSERT OR REPLACE INTO processes", &rows::PROCESS),
            put_file: insert("INSERT OR REPLACE INTO files", &rows::FILE),
            put_node: insert("INSERT OR REPLACE INTO nodes", &rows::NODE),
        }
    }
}

/// A statement that writes a row with these columns.
pub(super) fn insert(verb: &str, columns: &[&str]) -> String {
    format!("{verb} ({}) VALUES ({})", columns.join(","), vec!["?"; columns.len()].join(","))
}
