use super::*;
use crate::mode::decide;
use crate::mode::tests::capable;

fn findings(change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    let mut facts = capable();
    change(&mut facts);
    let plan = decide(&facts, None).unwrap();
    examine(&facts, &plan)
}

/// The faulted subjects of a host with one change.
#[track_caller]
fn check(faults: &[&str], change: impl FnOnce(&mut Facts)) {
    let found = findings(change);
    let bad: Vec<&str> = found.iter().filter(|finding| !finding.ok).map(|finding| finding.subject).collect();
    assert_eq!(bad, faults);
    for finding in &found {
        assert!(!finding.found.is_empty(), "{} says nothing", finding.subject);
        assert!(finding.ok || finding.change.is_some(), "{} says not what to change", finding.subject);
    }
}

#[test]
fn a_capable_host_has_no_fault() {
    check(&[], |_| {});
}

#[test]
fn each_lack_is_named_once() {
    check(&["page_out", "swap"], |facts| facts.swap_bytes = 0);
    check(&["swap"], |facts| facts.swap_bytes = facts.memory_bytes / 2);
    check(&["pressure", "pressure_triggers"], |facts| facts.pressure = false);
    check(&["pressure_triggers"], |facts| facts.may_exceed_limits = false);
    check(&["tmp"], |facts| facts.may_mount = false);
    check(&["private_tmp", "no_network"], |facts| facts.user_namespaces = false);
    check(&["no_network"], |facts| facts.network_namespaces = false);
    check(&["open_files"], |facts| facts.open_files = 1024);
    check(&["systemd"], |facts| facts.systemd = true);
    check(&["mode", "limit", "processes", "kernel_idle_class"], |facts| {
        facts.hierarchies[0].writable = false
    });
    check(&["kernel_idle_class"], |facts| {
        facts.kernel = "5.10.0".to_owned();
        facts.hierarchies[0].files.retain(|file| file != "cpu.idle");
    });
}

#[test]
fn every_subject_appears_once() {
    let found = findings(|_| {});
    let mut subjects: Vec<&str> = found.iter().map(|finding| finding.subject).collect();
    let count = subjects.len();
    subjects.sort_unstable();
    subjects.dedup();
    assert_eq!((subjects.len(), count), (24, 24));
}

#[test]
fn the_missing_swap_is_stated() {
    let found = findings(|facts| {
        facts.memory_bytes = 24 << 30;
        facts.swap_bytes = (4 << 30) - 1;
    });
    let swap = found.iter().find(|finding| finding.subject == "swap").unwrap();
    assert!(swap.change.as_ref().unwrap().starts_with("add 20.1 GiB:"), "{swap:?}");
}

#[test]
fn groups_of_others_are_named_without_blame() {
    let found = findings(|facts| facts.leftovers.push("/sys/fs/cgroup/pinfold/old".into()));
    let leftover = found.iter().find(|finding| finding.subject == "leftover_groups").unwrap();
    assert!(leftover.ok && leftover.found.contains("/sys/fs/cgroup/pinfold/old"), "{leftover:?}");
    assert_eq!(leftover.change, None);
    let found = findings(|facts| {
        facts.leftovers.extend((1..=30).map(|number| format!("/sys/fs/cgroup/pinfold/{number}").into()));
    });
    let leftover = found.iter().find(|finding| finding.subject == "leftover_groups").unwrap();
    assert!(leftover.found.contains("pinfold/4 and 26 more;"), "{leftover:?}");
}

#[test]
fn a_delegated_group_pleases() {
    check(&[], |facts| {
        facts.systemd = true;
        facts.hierarchies[0].delegated = true;
        facts.hierarchies[0].base = "system.slice/pinfoldd.service".to_owned();
    });
}

/// The finding on delegation for a host with one change, with its advice.
#[track_caller]
fn delegation_of(change: impl FnOnce(&mut Facts)) -> (bool, String, String) {
    let found = findings(change);
    let one = found.into_iter().find(|finding| finding.subject == "delegation").unwrap();
    (one.ok, one.found, one.change.unwrap_or_default())
}

#[test]
fn controllers_that_were_not_delegated_are_named() {
    let delegated = |facts: &mut Facts| {
        facts.user = 1000;
        facts.hierarchies[0].delegated = true;
        facts.hierarchies[0].base = "user@1000.service/app.slice/run-1.scope".to_owned();
        facts.hierarchies[0].controllers.retain(|one| one != "cpuset" && one != "io");
    };
    let (ok, found, change) = delegation_of(|facts| {
        delegated(facts);
        facts.systemd = true;
    });
    assert!(!ok && found.ends_with("run-1.scope is this daemon's, but without cpuset io"), "{found}");
    assert!(
        change.contains("user@.service") && change.contains("Delegate=cpu cpuset io memory pids"),
        "{change}"
    );
    let (_, _, change) = delegation_of(delegated);
    assert!(change.contains("+cpuset +io"), "{change}");
    let (ok, found, _) = delegation_of(|facts| facts.user = 1000);
    assert!(ok, "a user that may write at the top: {found}");
    let (ok, found, change) = delegation_of(|facts| {
        facts.user = 1000;
        facts.systemd = true;
        facts.hierarchies[0].writable = false;
    });
    assert!(
        !ok && found.contains("user 1000") && change.contains("systemd-run --user --scope"),
        "{found}: {change}"
    );
}

#[test]
fn a_group_without_controllers_is_not_asked_for_again() {
    let mut facts = capable();
    facts.hierarchies[0].delegated = true;
    facts.hierarchies[0].controllers.clear();
    let plan = decide(&facts, None).unwrap();
    for ability in &plan.abilities {
        let change = ability.change.as_deref().unwrap_or_default();
        assert!(!change.contains("delegate it a group"), "{}: {change}", ability.name);
    }
    assert_eq!(plan.ability(AbilityName::Limit).change.as_deref(), Some("see delegation"));
}
