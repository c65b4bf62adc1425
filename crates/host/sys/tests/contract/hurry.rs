//! A job that is to be frozen goes before all others until it is.

use pinfold_sys::container::{Container, Share};
use pinfold_sys::mode::{AbilityName, Via};

use crate::checks::groups_of_job;
use crate::world::World;

/// Job 5 goes before all others while it is to be frozen, and then as it did.
pub(crate) fn hurries(world: &World, instance: &str, container: &mut Container) {
    let by_group = |name| matches!(world.plan.via(name), Via::V1 | Via::V2);
    let weighs = by_group(AbilityName::Weigh) && by_group(AbilityName::IdleClass);
    for share in [Share::Normal { weight: 300 }, Share::Idle, Share::NORMAL] {
        container.share(share).expect("share");
        let before = weight(world, instance, 5);
        container.freeze().expect("freeze");
        assert_eq!(container.drifts(true).expect("read"), [], "{}: it is to be frozen", world.name);
        assert!(!weighs || weight(world, instance, 5) > before, "{}: {share:?}, {before:?}", world.name);
        container.thaw().expect("thaw");
        assert_eq!(weight(world, instance, 5), before, "{}: {share:?} again", world.name);
        assert_eq!(container.drifts(false).expect("read"), [], "{}: {share:?} again", world.name);
    }
}

/// A job's weight, in the unit of its host; `None`: no group has one.
fn weight(world: &World, instance: &str, job: u64) -> Option<u64> {
    let files = groups_of_job(world, instance, job).into_iter();
    let mut files = files.flat_map(|group| ["cpu.weight", "cpu.shares"].map(|file| group.join(file)));
    files.find_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok())
}
