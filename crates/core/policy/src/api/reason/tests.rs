//! The codes and the names of figures are what logs, stored decisions and other programs know: none changes.

use std::time::Duration;

use pinfold_place::pack::Level;

use super::*;
use crate::api::JobId;

const BY: JobId = JobId(7);

/// Names of figures.
type Names = &'static [&'static str];

/// A reason, its code, and the names of its figures.
type Row = (Reason, &'static str, Names);

/// One reason of each kind, with its code and the names of its figures as they are stored.
fn all() -> Vec<Row> {
    let mut all = slots();
    all.extend(cores());
    all.extend(queue_users_and_before());
    all.extend(shares());
    all.extend(memory());
    all
}

fn slots() -> Vec<Row> {
    let slots = |reason, code, figures: Names| -> Row { (Reason::Slot(reason), code, figures) };
    vec![
        slots(SlotReason::HomeCoreFree { used: 1, slots: 4 }, "home_core_free", &["slots_used", "slots"]),
        slots(
            SlotReason::BackfillSlotFree { used: 1, slots: 4 },
            "backfill_slot_free",
            &["slots_used", "slots"],
        ),
        slots(SlotReason::BackfillAsked { used: 1, slots: 4 }, "backfill_asked", &["slots_used", "slots"]),
        slots(SlotReason::SetFree { set: "a".into() }, "reservation_free", &["reservation"]),
        slots(SlotReason::Unscheduled, "unscheduled", &[]),
        slots(SlotReason::Preempted { by: BY, priority: 12 }, "preempted", &["by", "priority"]),
        slots(SlotReason::Exclusive { by: BY }, "exclusive", &["by"]),
        slots(SlotReason::ExclusiveOver, "exclusive_over", &[]),
        slots(SlotReason::SlotsShrank { slots: 2 }, "slots_shrank", &["slots"]),
        slots(SlotReason::Protected { allowed: 2 }, "headroom", &["allowed"]),
        slots(
            SlotReason::Interferes { with: BY, waited_milli: 90, usual_milli: 10 },
            "interference",
            &["with", "waited_milli", "usual_milli"],
        ),
        slots(SlotReason::SlotFree, "slot_free", &[]),
    ]
}

fn cores() -> Vec<Row> {
    let cores = |reason, code, figures: Names| -> Row { (Reason::Core(reason), code, figures) };
    vec![
        cores(CoreReason::LastOfList, "last_of_list", &[]),
        cores(CoreReason::NotLastOfList, "not_last_of_list", &[]),
        cores(CoreReason::SetAside { set: "a".into() }, "reserved_for_others", &["reservation"]),
        cores(CoreReason::Promoted { after: BY }, "promoted", &["after"]),
        cores(CoreReason::PromotedToFreeCore, "promoted_to_free_core", &[]),
        cores(CoreReason::IdlerCore { gap_milli: 300 }, "idler_core", &["gap_milli"]),
        cores(
            CoreReason::MadeRoom { by: BY, level: Level::Numa, memory_bytes: 1 },
            "made_room",
            &["by", "domain", "memory_bytes"],
        ),
        cores(CoreReason::CpusGone, "cpus_gone", &[]),
        cores(CoreReason::CpusChanged, "cpus_changed", &[]),
    ]
}

fn queue_users_and_before() -> Vec<Row> {
    let ttl = Duration::from_secs(5);
    vec![
        (Reason::Queue(QueueReason::QueueFull { depth: 9 }), "queue_full", &["depth"]),
        (Reason::Queue(QueueReason::Expired { ttl }), "expired", &["ttl_s"]),
        (Reason::Queue(QueueReason::TooLarge { asked: 9, cores: 4 }), "too_large", &["asked", "cores"]),
        (Reason::ASKED, "asked", &[]),
        (Reason::User(UserReason::PriorityChanged { priority: 3 }), "priority_changed", &["priority"]),
        (Reason::User(UserReason::Withdrawn), "withdrawn", &[]),
        (Reason::Again(AgainReason::Adopted), "adopted", &[]),
        (Reason::Again(AgainReason::Restored), "restored", &[]),
        (Reason::Again(AgainReason::BeginsAnew { why: "x".into() }), "retry", &["error"]),
        (Reason::Again(AgainReason::Retry { error: "x".into() }), "retry", &["error"]),
    ]
}

fn shares() -> Vec<Row> {
    let project = Some("p".to_owned());
    let shares = |reason, code, figures: Names| -> Row { (Reason::Share(reason), code, figures) };
    vec![
        shares(
            ShareReason::Guaranteed { project: project.clone(), used: 1, cores: 2 },
            "guaranteed",
            &["project", "cores_used", "cores"],
        ),
        shares(ShareReason::Reclaimed { project: None, by: BY }, "reclaimed", &["project", "by"]),
        shares(
            ShareReason::MemoryReclaimed { project, by: BY, lacking: 1 },
            "memory_reclaimed",
            &["project", "by", "lacking_bytes"],
        ),
    ]
}

fn memory() -> Vec<Row> {
    let within = Duration::from_secs(5);
    let memory = |reason, code, figures: Names| -> Row { (Reason::Memory(reason), code, figures) };
    let growing: &[&str] = &["free_bytes", "growth_bytes_per_s", "token"];
    vec![
        memory(MemoryReason::Short { free: 1, growth: 2, token: BY }, "memory_short", growing),
        memory(MemoryReason::GrowsTooFast { free: 1, growth: 2, token: BY }, "grows_too_fast", growing),
        memory(MemoryReason::MayGrow { why: Unthrottled::NoUse }, "may_grow", &["cause"]),
        memory(MemoryReason::Binding { why: MemoryBinding::Room }, "memory_binding", &["cause"]),
        memory(MemoryReason::GoesFirst, "token", &[]),
        memory(MemoryReason::GoesFirstNoMore, "token_passed_on", &[]),
        memory(
            MemoryReason::NoOtherWay { lacking: 1, times: 1, most: 3 },
            "no_other_way",
            &["lacking_bytes", "times", "most"],
        ),
        memory(
            MemoryReason::NoRoomSoon { lacking: 1, within },
            "no_room_soon",
            &["lacking_bytes", "within_s"],
        ),
        memory(MemoryReason::Checkpointed, "checkpointed", &[]),
        memory(MemoryReason::NotCheckpointed { error: "x".into() }, "not_checkpointed", &["error"]),
        memory(MemoryReason::Needed { needed: 1, free: 1 }, "memory_needed", &["needed_bytes", "free_bytes"]),
        memory(
            MemoryReason::Overcommitted { wanted: 1, lacking: 1 },
            "overcommitted",
            &["wanted_bytes", "lacking_bytes"],
        ),
        memory(MemoryReason::NextLacks { lacking: 1 }, "next_lacks_memory", &["lacking_bytes"]),
        memory(MemoryReason::Probed { within }, "reclaim_probe", &["within_s"]),
        memory(
            MemoryReason::Suffices { free: 1, swapped: 1 },
            "memory_suffices",
            &["free_bytes", "swapped_bytes"],
        ),
    ]
}

#[test]
fn codes_and_figures_are_those_that_are_stored() {
    for (reason, code, names) in all() {
        assert_eq!(reason.code(), code, "{reason:?}");
        let figures = reason.figures();
        assert_eq!(figures.iter().map(|figure| figure.name).collect::<Vec<_>>(), names, "{reason:?}");
        assert!(!reason.to_string().is_empty(), "{reason:?} has no words");
    }
}

#[test]
fn no_two_reasons_share_a_code_or_words() {
    let all = all();
    let mut codes: Vec<&str> = all.iter().map(|(_, code, _)| *code).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), all.len() - 1, "only one that begins anew and one that is tried again do");
    let mut words: Vec<String> = all.iter().map(|(reason, ..)| reason.to_string()).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), all.len());
}
