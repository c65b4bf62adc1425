//! How much is logged, as `PINFOLD_LOG` says: a level, or levels by module. Absent: what is logged.
//!
//! Filters by fields of spans are not read: this daemon opens no spans, and what reads them (regular expressions) would
//! be a thirtieth of its program.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// From now on events go to standard error, as text or as JSON lines.
pub(crate) fn start(json: bool) {
    let layer = fmt::layer().with_writer(std::io::stderr);
    let layer = if json { layer.json().boxed() } else { layer.with_target(false).boxed() };
    let filter = filter(std::env::var("PINFOLD_LOG").ok().as_deref());
    tracing_subscriber::registry().with(filter).with(layer).init();
}

/// What is logged by this text; warnings and errors without one, or with one that is no filter.
fn filter(text: Option<&str>) -> Targets {
    let told = text.and_then(|text| text.parse().ok());
    told.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn levels_and_modules() {
        let check = |text: Option<&str>, target: &str, level: Level, want: bool| {
            assert_eq!(filter(text).would_enable(target, &level), want, "{text:?}: {level} of {target}");
        };
        check(None, "pinfoldd::reactor", Level::WARN, true);
        check(None, "pinfoldd::reactor", Level::INFO, false);
        check(Some("debug"), "pinfold_sys::cgroup", Level::DEBUG, true);
        check(Some("warn,pinfoldd::witness=debug"), "pinfoldd::witness", Level::DEBUG, true);
        check(Some("warn,pinfoldd::witness=debug"), "pinfoldd::reactor", Level::INFO, false);
        check(Some("off"), "pinfoldd", Level::ERROR, false);
        check(Some("pinfoldd=loud"), "pinfoldd", Level::INFO, false);
        check(Some("pinfoldd=loud"), "pinfoldd", Level::WARN, true);
    }
}
