//! A variant on all stretches of a log, beside what others are measured by.

use super::log::Stretch;
use super::memory::{self, Advised};
use super::variant::{Figures, Site, Variant};
use crate::stats::{Median, median};

/// A stretch, how plain EASY does on all hosts, and the same jobs as they are advised by that.
#[derive(Debug)]
pub(super) struct Played<'a> {
    pub stretch: &'a Stretch,
    pub plain: Figures,
    pub advised: Advised,
}

impl<'a> Played<'a> {
    /// `None`: some job has no room on so many hosts.
    pub(super) fn new(site: &Site, hosts: u32, stretch: &'a Stretch) -> Option<Self> {
        let plain = site.play(&Variant::measure(), hosts, &stretch.jobs)?;
        let advised = memory::advised(&stretch.jobs, &plain.spans, site.ram);
        Some(Self { stretch, plain, advised })
    }
}

/// What came of a variant, a run a stretch.
#[derive(Debug)]
pub(super) struct Runs(pub Vec<Figures>);

impl Runs {
    /// On so many hosts; `None`: some job of a stretch has no room on them, or it is to stop, which is looked at before each
    /// stretch.
    pub(super) fn play(
        site: &Site,
        variant: &Variant,
        hosts: u32,
        of: &[Played<'_>],
        stops: &dyn Fn() -> bool,
    ) -> Option<Self> {
        let one = |played: &Played<'_>| {
            if stops() {
                return None;
            }
            let jobs = if variant.advised { &played.advised.jobs } else { &played.stretch.jobs };
            site.play(variant, hosts, jobs)
        };
        of.iter().map(one).collect::<Option<Vec<Figures>>>().map(Self)
    }

    /// A figure's median over the stretches.
    pub(super) fn median(&self, of: impl Fn(&Figures) -> f64) -> Median {
        median(&self.0.iter().map(of).collect::<Vec<_>>()).unwrap_or(NONE)
    }

    /// A figure of each stretch over that of plain EASY there.
    pub(super) fn ratio(&self, of: &[Played<'_>], figure: impl Fn(&Figures) -> f64) -> Median {
        let ratios = self.0.iter().zip(of).map(|(run, played)| figure(run) / figure(&played.plain).max(1.0));
        median(&ratios.collect::<Vec<_>>()).unwrap_or(NONE)
    }

    /// Jobs that were killed or never ended, in all.
    pub(super) fn lost(&self) -> u64 {
        self.0.iter().map(lost).sum()
    }

    /// As little slowdown as plain EASY on all hosts in the median of the stretches, with no more jobs lost.
    pub(super) fn are_as_good_as_plain(&self, of: &[Played<'_>]) -> bool {
        self.lost() <= of.iter().map(|played| lost(&played.plain)).sum()
            && self.ratio(of, slowdown).value <= 1.0
    }
}

/// No stretch was played.
const NONE: Median = Median { value: 0.0, low: 0.0, high: 0.0, confidence: 0.0, count: 0 };

pub(super) fn slowdown(figures: &Figures) -> f64 {
    figures.metrics.mean_bounded_slowdown
}

fn lost(figures: &Figures) -> u64 {
    figures.toll.killed + figures.stuck as u64
}

#[cfg(test)]
mod tests {
    use pinfold_cluster::metrics::Metrics;
    use pinfold_whatif::play::Toll;

    use super::*;

    fn figures(killed: u64, slowdown: f64) -> Figures {
        Figures {
            metrics: Metrics { mean_bounded_slowdown: slowdown, ..Metrics::default() },
            toll: Toll { killed, ..Toll::default() },
            stuck: 0,
            spans: Vec::new(),
        }
    }

    #[test]
    fn most_stretches_decide_and_no_more_jobs_may_be_lost() {
        let stretch = Stretch { jobs: Vec::new(), large: 0, load: 0.9 };
        let plain = |slowdown| Played {
            stretch: &stretch,
            plain: figures(0, slowdown),
            advised: memory::advised(&[], &[], u64::MAX),
        };
        let of = [plain(2.0), plain(50.0), plain(4.0)];
        let good = |runs: [Figures; 3]| Runs(runs.into()).are_as_good_as_plain(&of);
        assert!(good([figures(0, 2.0), figures(0, 50.0), figures(0, 4.0)]));
        assert!(good([figures(0, 1.5), figures(0, 90.0), figures(0, 4.0)]));
        assert!(!good([figures(0, 2.1), figures(0, 1.0), figures(0, 4.1)]));
        assert!(!good([figures(0, 1.0), figures(1, 1.0), figures(0, 1.0)]));
        assert!(!good([figures(0, 1.0), Figures { stuck: 1, ..figures(0, 1.0) }, figures(0, 1.0)]));
    }
}
