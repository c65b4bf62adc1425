//! A job's figures that can be shown, sorted by and compared: the only names that become part of SQL. User input is
//! looked up here, and only this table's own names go on.

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Text.
    Text,
    /// A whole number.
    Count,
    /// A number with a fraction.
    Real,
    /// A moment, in microseconds since the Unix epoch.
    Moment,
    /// A duration in seconds.
    Seconds,
    /// A size in bytes.
    Bytes,
}

impl Form {
    /// Whether conditions can compare the column with a number.
    #[must_use]
    pub const fn is_figure(self) -> bool {
        !matches!(self, Self::Text | Self::Moment)
    }
}

/// A column of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Name in addresses and in CSV.
    pub key: &'static str,
    /// Title on the page.
    pub head: &'static str,
    /// The type.
    pub form: Form,
    sql: &'static str,
    /// Whether the column is shown by default.
    pub usual: bool,
}

impl Column {
    /// The column's SQL, a literal of this file.
    pub(super) const fn sql(&self) -> &'static str {
        self.sql
    }
}

const fn column(key: &'static str, head: &'static str, form: Form, sql: &'static str, usual: bool) -> Column {
    Column { key, head, form, sql, usual }
}

/// All columns in display order.
pub const COLUMNS: [Column; 30] = [
    column("host", "Host", Form::Text, "hosts.name", true),
    column("job", "Job", Form::Count, "jobs.job", true),
    column("name", "Name", Form::Text, "jobs.name", true),
    column("user", "User", Form::Text, "jobs.\"user\"", true),
    column("project", "Project", Form::Text, "jobs.project", false),
    column("class", "Class", Form::Text, "jobs.class", false),
    column("priority", "Priority", Form::Count, "jobs.priority", false),
    column("submitted", "Submitted", Form::Moment, "jobs.submitted_us", false),
    column("started", "Started", Form::Moment, "jobs.started_us", false),
    column("ended", "Ended", Form::Moment, "jobs.ended_us", true),
    column("received", "Received", Form::Moment, "jobs.received_us", false),
    column("exit_code", "Exit", Form::Count, "jobs.exit_code", true),
    column("signal", "Signal", Form::Count, "jobs.signal", false),
    column("end", "Ended by", Form::Text, "jobs.ended_by", false),
    column("queued_s", "Queued", Form::Seconds, "jobs.queued_s", false),
    column("wall_s", "Wall time", Form::Seconds, "jobs.wall_s", true),
    column("suspended_s", "Suspended", Form::Seconds, "jobs.suspended_s", true),
    column("cpu_s", "CPU time", Form::Seconds, "jobs.cpu_s", false),
    column("cores", "Cores", Form::Count, "jobs.cores", true),
    column("cores_used", "Cores used", Form::Real, "jobs.cores_used", true),
    column("memory_peak_bytes", "Memory peak", Form::Bytes, "jobs.memory_peak_bytes", true),
    column("memory_mean_bytes", "Memory mean", Form::Bytes, "jobs.memory_mean_bytes", false),
    column("claim_bytes", "Claim", Form::Bytes, "jobs.claim_bytes", true),
    column("limit_bytes", "Limit", Form::Bytes, "jobs.limit_bytes", false),
    column("swap_peak_bytes", "Swap peak", Form::Bytes, "jobs.swap_peak_bytes", false),
    column("io_read_bytes", "Read", Form::Bytes, "jobs.io_read_bytes", false),
    column("io_write_bytes", "Written", Form::Bytes, "jobs.io_write_bytes", false),
    column("unused_gibh", "Unused GiB h", Form::Real, "jobs.unused_gibh", true),
    column("idle_core_h", "Idle core h", Form::Real, "jobs.idle_core_h", false),
    column("samples", "Samples", Form::Count, "jobs.samples", false),
];

/// The column of this name.
#[must_use]
pub fn find(key: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.key == key)
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// The column is above the value.
    Above,
    /// The column is below the value.
    Below,
    /// The column equals the value.
    Equal,
}

/// A condition on a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition {
    /// The compared column.
    pub column: &'static Column,
    /// The comparison.
    pub compare: Compare,
    /// The compared value, in the column's unit.
    pub value: f64,
}

impl Condition {
    /// The SQL, with the place of the value.
    pub(super) fn sql(&self, place: usize) -> String {
        let sign = match self.compare {
            Compare::Above => '>',
            Compare::Below => '<',
            Compare::Equal => '=',
        };
        // Whole numbers too, for the condition's value may have a fraction.
        format!("{} {sign} CAST(?{place} AS DOUBLE PRECISION)", self.column.sql)
    }
}

/// The most conditions of one question.
pub const CONDITIONS_MAX: usize = 8;

/// Reads conditions in their typed form: `memory_peak_bytes>4GiB, wall_s<1h, exit_code=1`.
///
/// # Errors
/// A message that names the fault.
pub fn conditions(text: &str) -> Result<Vec<Condition>, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.len() > CONDITIONS_MAX {
        return Err(format!("at most {CONDITIONS_MAX} conditions at once"));
    }
    parts.into_iter().map(condition).collect()
}

fn condition(text: &str) -> Result<Condition, String> {
    let at = text
        .find(['<', '>', '='])
        .ok_or_else(|| format!("{text}: FIGURE>VALUE, FIGURE<VALUE or FIGURE=VALUE is wanted"))?;
    let (key, rest) = text.split_at(at);
    let compare = match rest.as_bytes().first() {
        Some(b'>') => Compare::Above,
        Some(b'<') => Compare::Below,
        _ => Compare::Equal,
    };
    let key = key.trim();
    let column = find(key).filter(|column| column.form.is_figure());
    let column =
        column.ok_or_else(|| format!("{key}: no such figure; memory_peak_bytes and wall_s are some"))?;
    let value = rest[1..].trim();
    let bad = || format!("{text}: {value:?} is no value for {key}");
    let value = match column.form {
        Form::Bytes => pinfold_proto::quantity::parse_size(value).map(precise).map_err(|_| bad())?,
        Form::Seconds => match value.parse::<f64>() {
            Ok(seconds) => seconds,
            Err(_) => pinfold_proto::quantity::parse_duration(value).map_err(|_| bad())?.as_secs_f64(),
        },
        _ => value.parse().map_err(|_| bad())?,
    };
    if !value.is_finite() {
        return Err(bad());
    }
    Ok(Condition { column, compare, value })
}

#[expect(clippy::cast_precision_loss, reason = "15 digits of a size are enough for a comparison")]
fn precise(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Option<&[(&str, Compare, f64)]>) {
        let found = conditions(text).ok();
        let found = found.map(|found| {
            found.iter().map(|one| (one.column.key, one.compare, one.value)).collect::<Vec<_>>()
        });
        assert_eq!(found.as_deref(), want, "{text}");
    }

    #[test]
    fn conditions_are_read_or_refused() {
        check("", Some(&[]));
        check("memory_peak_bytes>4GiB", Some(&[("memory_peak_bytes", Compare::Above, 4_294_967_296.0)]));
        check(
            "wall_s<1h, exit_code=1",
            Some(&[("wall_s", Compare::Below, 3600.0), ("exit_code", Compare::Equal, 1.0)]),
        );
        check("cores_used < 0.5", Some(&[("cores_used", Compare::Below, 0.5)]));
        check("name=x", None);
        check("wall_s", None);
        check("wall_s>", None);
        check("wall_s>NaN", None);
        check("1=1 OR wall_s>1", None);
        check("wall_s>1); DROP TABLE jobs; --", None);
        check("head>1", None);
        check(&"wall_s>1,".repeat(9), None);
    }
}
