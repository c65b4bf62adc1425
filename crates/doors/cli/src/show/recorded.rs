//! How a job stood at an earlier moment, from the recordings of the scheduler's events: where the store has forgotten the
//! job, or never knew what it waited for.
//!
//! Only the daemon's user (and root) can read recordings; for all others there are none.

use pinfold_profile::report::clock_here;
use pinfold_proto::row::Figures;
use pinfold_proto::view::{DecisionView, NumberView, VERSION, WhyView, seconds};
use pinfold_record::{ring, tell};

use crate::print::say;
use crate::replay;
use pinfold_client::{Dial, Failure};

/// The directory of the recordings, in the state directory.
const DIRECTORY: &str = "events";
/// Units that figures have at the end of their names.
const UNITS: [&str; 3] = ["bytes", "milli", "s"];

/// How the job stood; `None`: there is no recording of that moment that can be read, or the job is not in it.
pub(super) fn why(dial: &Dial, job: u64, at_us: u64) -> Result<Option<WhyView>, Failure> {
    let directory = dial.state_dir()?.0.join(DIRECTORY);
    if !ring::files(&directory).is_ok_and(|files| !files.is_empty()) {
        return Ok(None);
    }
    let files = replay::recordings(&[directory])?;
    let file = replay::of_that_moment(&files, at_us)?;
    let mut player = replay::open(&file)?;
    let found =
        tell::then(&mut player, at_us, job).map_err(|error| Failure::doing(file.display(), &error))?;
    let Some(tell::Then { job, numbers, decided, last_us }) = found else { return Ok(None) };
    let state = serde_json::from_value(job.state.into())
        .map_err(|error| Failure::doing(format!("the state `{}`", job.state), &error))?;
    let begun_us = player.head().begun_us;
    // Where nothing was recorded for long before that moment, its reader has to judge what that means.
    let last_us = last_us.unwrap_or(begun_us);
    say(&format!(
        "from {}, which was begun at {}; the last event up to that moment was at {}",
        file.display(),
        clock_here(seconds(begun_us)),
        clock_here(seconds(last_us))
    ));
    let decision = |(time_us, said): (u64, tell::Said)| DecisionView {
        time_s: seconds(time_us),
        action: said.action.to_owned(),
        reason: said.text.clone(),
        text: said.text,
        action_code: Some(said.action.to_owned()),
        code: Some(said.code.to_owned()),
        figures: Figures::new(),
    };
    let mut figures = Figures::new();
    let mut views = Vec::new();
    for number in numbers {
        let mut view = NumberView::words(number.name, number.text);
        for figure in &number.figures {
            let value = serde_json::to_value(&figure.value).unwrap_or_default();
            if view.value.is_string() && value.is_number() {
                let unit = UNITS.into_iter().find(|unit| figure.name.ends_with(&format!("_{unit}")));
                (view.value, view.unit) = (value.clone(), unit.map(str::to_owned));
            }
            figures.insert(figure.name.to_owned(), value);
        }
        views.push(view);
    }
    Ok(Some(WhyView {
        version: VERSION,
        job: job.job,
        state,
        cause: job.cause,
        numbers: views,
        figures,
        change: job.change,
        decisions: decided.into_iter().map(decision).collect(),
        left_out: None,
        expected_start_s: None,
    }))
}
