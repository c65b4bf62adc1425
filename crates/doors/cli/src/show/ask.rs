//! Asking the daemon for jobs: which jobs, and the pieces of its answer.

use pinfold_proto::view::ReportView;
use pinfold_proto::wire::{Piece, Request, Select};

use crate::names::{self, JobRef};
use crate::print::moment;
use pinfold_client::{Client, Failure};

/// Asks for jobs, and collects them.
pub(super) fn ask(client: &mut Client, request: &Request) -> Result<Vec<ReportView>, Failure> {
    let mut reports = Vec::new();
    each(client, request, |report| {
        reports.push(report);
        Ok(())
    })?;
    Ok(reports)
}

/// Asks for jobs, and hands each over once all of it is there.
pub(crate) fn each(
    client: &mut Client,
    request: &Request,
    mut take: impl FnMut(ReportView) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut last: Option<ReportView> = None;
    client.ask_in_pieces(request, |piece| {
        match piece {
            Piece::Jobs(reports) => {
                for report in reports {
                    last.replace(report).map_or(Ok(()), &mut take)?;
                }
            }
            Piece::Points(points) => {
                last.iter_mut().for_each(|report| report.series.get_or_insert_default().extend(&points));
            }
            Piece::Last => {}
        }
        Ok(())
    })?;
    last.map_or(Ok(()), take)
}

/// A request for the figures of jobs, perhaps with their series, without their lists; `all`: also jobs of other users.
pub(crate) fn figures_of(select: Select, series: bool, all: bool) -> Request {
    Request::Report { select, series, processes: false, threads: false, files: false, all, pieces: true }
}

/// Asks for the figures of jobs, without their series and lists.
pub(crate) fn reports(client: &mut Client, select: Select) -> Result<Vec<ReportView>, Failure> {
    ask(client, &figures_of(select, false, false))
}

/// Asks for a job's figures, without its course; `None`: the daemon does not know the job.
pub(crate) fn figures(client: &mut Client, job: u64) -> Result<Option<ReportView>, Failure> {
    Ok(reports(client, Select::Jobs(vec![job]))?.pop())
}

pub(super) fn selected(
    client: &mut Client,
    jobs: &[JobRef],
    last: Option<u32>,
    since: Option<&str>,
) -> Result<Select, Failure> {
    match (last, since) {
        (Some(count), _) => Ok(Select::Last(count)),
        (None, Some(since)) => moment("--since", since).map(Select::Since),
        (None, None) => names::jobs(client, jobs).map(Select::Jobs),
    }
}
