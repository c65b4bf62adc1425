//! The jobs of an episode, drawn from its seed.

use std::time::Duration;

use pinfold_policy::{JobId, Request, Wish};
use pinfold_topo::CpuSet;

use crate::dice::Dice;
use crate::host::{Happening, Host, SET};
use crate::world::Work;

/// Draws all jobs and when they arrive.
pub(super) fn plan_jobs(host: &mut Host) {
    let mut at_us = 0;
    for number in 1..=host.options.jobs {
        let job = JobId(number);
        let (mut request, work) = draw_job(host, job);
        if let Some(set) = host.own_set(job) {
            (request.aside, request.class, request.wish) = (Some(set), None, None);
        }
        host.works.insert(job, (request, work));
        if host.options.arrival_us > 0 {
            at_us += host.dice.around(host.options.arrival_us);
        }
        if host.only.has_job(number) {
            host.plan(at_us, Happening::Arrive(job));
        }
    }
}

fn draw_job(host: &mut Host, job: JobId) -> (Request, Work) {
    let (dice, options) = (&mut host.dice, &host.options);
    let [class, held, no_suspend, expected, ttl, stubborn] =
        options.odd_permille.map(|permille| dice.chance(permille));
    let cores = dice.between(1, options.width_max);
    let (more, aside) = (&mut host.more, options.aside_permille);
    let aside = more.chance(aside).then(|| SET.to_owned());
    // The daemon refuses PUs outside the requested set.
    let nameable = if aside.is_none() { host.world.cores() } else { &[] };
    let wish = more.chance(options.wish_permille).then(|| Box::new(draw_wish(more, nameable, cores)));
    let work_us = dice.around(options.work_us);
    let request = Request {
        priority: dice.pick(&options.priorities),
        cores: u32::try_from(cores).unwrap_or(1),
        class: class.then(|| dice.pick(&options.classes)),
        expected: expected.then(|| Duration::from_micros(dice.around(work_us))),
        ttl: ttl.then(|| Duration::from_micros(dice.around(30_000_000))),
        held,
        no_suspend,
        wish,
        aside,
        project: if options.divided {
            host.more.pick(&[None, Some("p"), Some("q")]).map(str::to_owned)
        } else {
            None
        },
        array: options.array_of(job.0),
        list: options.list_of(job.0),
        ..Request::plain(job)
    };
    let duty_milli = dice.between(options.duty_min_milli, 1000);
    (request, Work { left: work_us * 1000, duty_milli, threads: cores, stubborn })
}

/// Draws named cores, or a layout.
fn draw_wish(dice: &mut Dice, cores: &[CpuSet], count: u64) -> Wish {
    let mut wish = Wish::default();
    let at = usize::try_from(dice.below(cores.len().max(1) as u64)).unwrap_or(0);
    let kind = dice.below(4);
    let options: &[(&str, &str)] = match kind {
        0 => {
            wish.named = cores.get(at).and_then(CpuSet::first).map(CpuSet::single).unwrap_or_default();
            &[]
        }
        // A cpuset constraint of at least as many cores as requested; they may be set aside.
        1 => {
            let inside = usize::try_from(count).unwrap_or(1).max(at + 1);
            wish.within = cores.iter().take(inside).flat_map(CpuSet::iter).collect();
            &[]
        }
        2 => &[("hint", "memory_bound")],
        _ => &[("distribution", "cyclic")],
    };
    let ntasks = count.to_string();
    for (name, value) in
        options.iter().chain([("ntasks", ntasks.as_str())].iter().filter(|_| !options.is_empty()))
    {
        // An invalid value is ignored.
        let _ = wish.layout.set(name, Some(value));
    }
    wish
}
