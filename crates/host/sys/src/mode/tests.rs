//! Every test starts from a fully capable host and takes one capability away.

use super::*;

/// A host on which every ability is real.
pub(crate) fn capable() -> Facts {
    let files = ["cgroup.events", "cgroup.freeze", "cgroup.kill", "cgroup.procs", "cpu.idle", "cpu.weight"];
    let files = files.into_iter().chain(["cpuset.cpus", "memory.max", "memory.reclaim"]);
    Facts {
        kernel: "6.12.9-1-amd64".to_owned(),
        user: 0,
        may_raise_weight: true,
        may_exceed_limits: true,
        may_mount: true,
        user_namespaces: true,
        network_namespaces: true,
        nice_ceiling: 0,
        autogroup: false,
        open_files: 524_288,
        pus: 8,
        smt: Some(true),
        memory_bytes: 64 << 30,
        swap_bytes: 64 << 30,
        pressure: true,
        children_listed: true,
        systemd: false,
        hierarchies: vec![Hierarchy {
            generation: Generation::V2,
            mount: PathBuf::from("/sys/fs/cgroup"),
            base: String::new(),
            delegated: false,
            controllers: ["cpu", "cpuset", "io", "memory", "pids"].map(str::to_owned).to_vec(),
            writable: true,
            files: files.map(str::to_owned).collect(),
        }],
        leftovers: Vec::new(),
    }
}

/// The capable host with its controllers in hierarchies of the first generation.
fn hybrid() -> Facts {
    let mut facts = capable();
    facts.hierarchies[0].controllers.clear();
    facts.hierarchies[0].mount = PathBuf::from("/sys/fs/cgroup/unified");
    for (controller, file) in
        [("cpu", "cpu.idle"), ("cpuset", "cpuset.cpus"), ("memory", "memory.stat"), ("pids", "pids.max")]
    {
        facts.hierarchies.push(Hierarchy {
            generation: Generation::V1,
            mount: PathBuf::from("/sys/fs/cgroup").join(controller),
            base: String::new(),
            delegated: false,
            controllers: vec![controller.to_owned()],
            writable: true,
            files: vec![file.to_owned()],
        });
    }
    facts
}

fn without(change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = capable();
    change(&mut facts);
    facts
}

fn lose_file(facts: &mut Facts, file: &str) {
    facts.hierarchies[0].files.retain(|have| have != file);
}

fn lose_controller(facts: &mut Facts, controller: &str) {
    facts.hierarchies[0].controllers.retain(|have| have != controller);
}

/// The ineffective abilities, and the abilities by other means than the given.
#[track_caller]
fn check(facts: &Facts, mode: Mode, other_means: &[(AbilityName, Via)], unreal: &[AbilityName]) {
    let plan = decide(facts, None).expect("without a wish there is always a mode");
    assert_eq!(plan.mode, mode, "{}", plan.why);
    let usual = match mode {
        Mode::V2 => |_: AbilityName| Via::V2,
        Mode::Hybrid => |name: AbilityName| match name {
            AbilityName::Freeze | AbilityName::Kill => Via::V2,
            AbilityName::IoRate => Via::Processes,
            _ => Via::V1,
        },
        Mode::Rootless => |name: AbilityName| match name {
            AbilityName::Limit | AbilityName::Processes => Via::Nothing,
            _ => Via::Processes,
        },
    };
    for name in AbilityName::ALL {
        let want =
            other_means.iter().find(|other| other.0 == name).map_or_else(|| usual(name), |other| other.1);
        let have = plan.ability(name);
        assert_eq!(have.via, want, "{name}: {}", have.how);
        assert_eq!(have.real, !unreal.contains(&name), "{name}: {}", have.how);
        assert!(have.real || have.change.is_some(), "{name} is not real, and nothing is said to change that");
    }
}

#[test]
fn a_capable_host_has_everything_from_the_unified_hierarchy() {
    check(&capable(), Mode::V2, &[], &[]);
}

#[test]
fn a_hybrid_host_has_everything_too() {
    check(&hybrid(), Mode::Hybrid, &[], &[]);
}

#[test]
fn without_swap_nothing_is_paged_out() {
    check(&without(|facts| facts.swap_bytes = 0), Mode::V2, &[], &[AbilityName::PageOut]);
}

#[test]
fn without_the_cpu_controller_threads_are_weighed_one_by_one() {
    let means = [
        (AbilityName::Weigh, Via::Processes),
        (AbilityName::IdleClass, Via::Processes),
        (AbilityName::Quota, Via::Nothing),
    ];
    check(&without(|facts| lose_controller(facts, "cpu")), Mode::V2, &means, &[AbilityName::Quota]);
}

#[test]
fn without_the_right_to_raise_a_weight_it_is_only_lowered() {
    let facts = without(|facts| {
        lose_controller(facts, "cpu");
        facts.may_raise_weight = false;
    });
    let means = [
        (AbilityName::Weigh, Via::Processes),
        (AbilityName::IdleClass, Via::Processes),
        (AbilityName::Quota, Via::Nothing),
    ];
    check(&facts, Mode::V2, &means, &[AbilityName::Weigh, AbilityName::Quota]);
    let plan = decide(&facts, None).unwrap();
    assert!(plan.ability(AbilityName::IdleClass).how.contains("cannot leave"));
    let raised = Facts { nice_ceiling: 20, ..facts.clone() };
    check(&raised, Mode::V2, &means, &[AbilityName::Quota]);
    let by_session = Facts { autogroup: true, ..facts };
    check(&by_session, Mode::V2, &means, &[AbilityName::Quota]);
}

#[test]
fn without_the_cpuset_controller_threads_are_bound_one_by_one() {
    check(
        &without(|facts| lose_controller(facts, "cpuset")),
        Mode::V2,
        &[(AbilityName::Pin, Via::Processes)],
        &[],
    );
}

#[test]
fn without_the_memory_controller_nothing_is_bounded() {
    let means = [
        (AbilityName::Limit, Via::Nothing),
        (AbilityName::PageOut, Via::Processes),
        (AbilityName::Measure, Via::Processes),
    ];
    check(&without(|facts| lose_controller(facts, "memory")), Mode::V2, &means, &[AbilityName::Limit]);
}

#[test]
fn without_the_pids_controller_processes_are_not_counted() {
    let facts = without(|facts| lose_controller(facts, "pids"));
    check(&facts, Mode::V2, &[(AbilityName::Processes, Via::Nothing)], &[AbilityName::Processes]);
    let plan = decide(&facts, None).unwrap();
    assert!(plan.ability(AbilityName::Processes).how.starts_with("nothing here"));
    // If the first generation counts them in an unused hierarchy, jobs stay in its groups.
    let plan = decide(&hybrid(), Some(Mode::V2)).unwrap();
    assert!(plan.ability(AbilityName::Processes).how.contains("its client"));
    assert_eq!(plan.via(AbilityName::Quota), Via::Processes);
}

#[test]
fn without_the_io_controller_a_bounded_user_is_refused() {
    let facts = without(|facts| lose_controller(facts, "io"));
    check(&facts, Mode::V2, &[(AbilityName::IoRate, Via::Nothing)], &[AbilityName::IoRate]);
}

#[test]
fn an_old_kernel_kills_one_by_one_and_knows_no_idle_groups() {
    let facts = without(|facts| {
        facts.kernel = "5.4.0-generic".to_owned();
        lose_file(facts, "cgroup.kill");
        lose_file(facts, "cpu.idle");
        lose_file(facts, "memory.reclaim");
    });
    let means = [(AbilityName::Kill, Via::Processes), (AbilityName::IdleClass, Via::Processes)];
    check(&facts, Mode::V2, &means, &[]);
    assert!(decide(&facts, None).unwrap().ability(AbilityName::PageOut).how.contains("memory.high"));
}

#[test]
fn a_file_that_shows_only_with_its_controller_enabled_is_judged_by_the_kernel() {
    let facts = without(|facts| {
        lose_file(facts, "cpu.idle");
        lose_file(facts, "memory.reclaim");
    });
    check(&facts, Mode::V2, &[], &[]);
}

#[test]
fn without_the_freeze_file_processes_are_stopped() {
    let facts = without(|facts| lose_file(facts, "cgroup.freeze"));
    check(&facts, Mode::V2, &[(AbilityName::Freeze, Via::Processes)], &[]);
}

#[test]
fn without_a_tree_the_old_freezer_serves() {
    let mut facts = hybrid();
    facts.hierarchies.remove(0);
    let means = [(AbilityName::Freeze, Via::Processes), (AbilityName::Kill, Via::Processes)];
    check(&facts, Mode::Hybrid, &means, &[]);
    for controller in ["freezer", "cpuacct"] {
        let mut more = facts.hierarchies[0].clone();
        more.controllers = vec![controller.to_owned()];
        facts.hierarchies.push(more);
    }
    let means = [(AbilityName::Freeze, Via::V1), (AbilityName::Kill, Via::Processes)];
    check(&facts, Mode::Hybrid, &means, &[]);
    let plan = decide(&facts, None).unwrap();
    assert!(plan.carrier(Generation::V1, "cpuacct").is_some(), "nothing else counts processor time");
}

#[test]
fn hierarchies_that_serve_nothing_are_left_out() {
    let mut facts = hybrid();
    for controller in ["freezer", "cpuacct"] {
        let mut more = facts.hierarchies[1].clone();
        more.controllers = vec![controller.to_owned()];
        facts.hierarchies.push(more);
    }
    let plan = decide(&facts, None).unwrap();
    assert_eq!(plan.hierarchies.len(), 5, "cpu, cpuset, memory, pids and the tree");
}

#[test]
fn a_user_without_groups_has_processes_only() {
    let facts = without(|facts| {
        facts.user = 1000;
        facts.may_raise_weight = false;
        facts.hierarchies[0].writable = false;
    });
    let means = [(AbilityName::PageOut, Via::Nothing)];
    let unreal = [AbilityName::Weigh, AbilityName::Limit, AbilityName::PageOut, AbilityName::Processes];
    check(&facts, Mode::Rootless, &means, &unreal);
}

#[test]
fn a_wish_is_granted_or_refused_with_its_reason() {
    let facts = capable();
    assert_eq!(decide(&facts, Some(Mode::V2)).map(|plan| plan.mode), Ok(Mode::V2));
    assert_eq!(decide(&facts, Some(Mode::Rootless)).map(|plan| plan.hierarchies.len()), Ok(0));
    assert_eq!(decide(&facts, Some(Mode::Hybrid)).map(|_| ()), Err(ModeError::NoHierarchy { user: 0 }));
    let foreign = without(|facts| {
        facts.user = 7;
        facts.hierarchies[0].writable = false;
    });
    let mount = PathBuf::from("/sys/fs/cgroup");
    assert_eq!(decide(&foreign, Some(Mode::V2)).map(|_| ()), Err(ModeError::TreeNotOurs { mount, user: 7 }));
    let none = without(|facts| facts.hierarchies.clear());
    assert_eq!(decide(&none, Some(Mode::V2)).map(|_| ()), Err(ModeError::NoTree));
    assert_eq!(decide(&none, None).map(|plan| plan.mode), Ok(Mode::Rootless));
}

#[test]
fn a_hybrid_host_can_be_told_to_use_its_tree_alone() {
    let plan = decide(&hybrid(), Some(Mode::V2)).unwrap();
    assert_eq!(plan.hierarchies.len(), 1);
    assert_eq!((plan.via(AbilityName::Freeze), plan.via(AbilityName::Pin)), (Via::V2, Via::Processes));
}

#[test]
fn equal_facts_give_equal_plans() {
    for facts in [capable(), hybrid()] {
        let plans = [decide(&facts, None).unwrap(), decide(&facts, None).unwrap()];
        assert_eq!(plans[0].abilities, plans[1].abilities);
        assert_eq!(plans[0].why, plans[1].why);
    }
}

#[test]
fn kernel_releases() {
    let at_least = |kernel: &str, major, minor| {
        without(|facts| facts.kernel = kernel.to_owned()).kernel_at_least(major, minor)
    };
    assert!(at_least("6.18.44-fc", 6, 18) && at_least("6.1.0", 5, 19) && at_least("10.0-rc1", 6, 18));
    assert!(!at_least("5.14.0-503.el9", 5, 15) && !at_least("", 2, 6) && !at_least("six.one", 2, 6));
}

#[test]
fn mount_points_lie_below_the_roots() {
    let fake = Roots { cgroup: PathBuf::from("/tmp/x"), ..Roots::default() };
    assert_eq!(fake.resolve("/sys/fs/cgroup/cpu"), Some(PathBuf::from("/tmp/x/cpu")));
    assert_eq!(fake.resolve("/sys/fs/cgroup"), Some(PathBuf::from("/tmp/x")));
    assert_eq!(fake.resolve("/cgroup/cpu"), None, "a fake tree never leads to the real one");
    assert_eq!(Roots::default().resolve("/cgroup/cpu"), Some(PathBuf::from("/cgroup/cpu")));
}

#[test]
fn modes_have_names() {
    for mode in [Mode::V2, Mode::Hybrid, Mode::Rootless] {
        assert_eq!(mode.to_string().parse(), Ok(mode));
    }
    assert_eq!("v3".parse::<Mode>(), Err(UnknownMode("v3".to_owned())));
}
