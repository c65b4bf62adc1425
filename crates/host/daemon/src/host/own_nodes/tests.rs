use std::cell::RefCell;

use pinfold_sys::discover::NodeHeld;

use super::clear::{Host, clear};
use super::*;

const MIB: u64 = 1 << 20;

/// Nodes of 1,000 MiB each, and which job has how much where.
#[derive(Debug, Default)]
struct Fake {
    nodes: Vec<u32>,
    /// In MiB, by job (0: no job's) and node.
    lies: RefCell<BTreeMap<(u64, u32), u64>>,
    may: RefCell<BTreeMap<u64, Vec<u32>>>,
    /// What a job gets on each node while its memory is moved.
    grows: u64,
    refuses: bool,
}

impl Fake {
    fn new(nodes: u32, lies: &[(u64, u32, u64)]) -> Self {
        let lies = lies.iter().map(|&(job, node, mib)| ((job, node), mib)).collect();
        Self { nodes: (0..nodes).collect(), lies: RefCell::new(lies), ..Self::default() }
    }

    fn go(&self, job: u64, nodes: &[u32], others: &[u32]) {
        let mut lies = self.lies.borrow_mut();
        for node in nodes {
            let moved = lies.remove(&(job, *node)).unwrap_or(0);
            *lies.entry((job, others[0])).or_default() += moved;
        }
    }

    fn mib(&self, job: u64, node: u32) -> u64 {
        self.lies.borrow().get(&(job, node)).copied().unwrap_or(0)
    }
}

impl Host for Fake {
    fn held(&self) -> Vec<NodeHeld> {
        let of = |node: u32| {
            let lies = self.lies.borrow();
            let held: u64 = lies.iter().filter(|((_, at), _)| *at == node).map(|(_, mib)| mib).sum();
            NodeHeld { node, total_bytes: 1000 * MIB, held_bytes: held * MIB }
        };
        self.nodes.iter().copied().map(of).collect()
    }

    fn lies(&self, job: JobId) -> Vec<(u32, u64)> {
        self.nodes.iter().map(|&node| (node, self.mib(job.0, node) * MIB)).collect()
    }

    fn move_away(&self, job: JobId, nodes: &[u32], others: &[u32]) {
        self.go(job.0, nodes, others);
        if !self.may.borrow().contains_key(&job.0) && self.grows > 0 {
            *self.lies.borrow_mut().entry((job.0, nodes[0])).or_default() += self.grows;
        }
    }

    fn bind(&self, job: JobId, nodes: &[u32]) -> Option<String> {
        if self.refuses {
            return Some("it refuses".to_owned());
        }
        self.may.borrow_mut().insert(job.0, nodes.to_vec());
        None
    }

    fn strays(&self) -> Vec<u32> {
        vec![17]
    }

    fn move_stray(&self, pid: u32, nodes: &[u32], others: &[u32]) {
        assert_eq!(pid, 17);
        self.go(0, nodes, others);
    }
}

fn order(jobs: &[(u64, &[u32])], own: &[u64], strays: Option<&[u32]>) -> Order {
    Order {
        number: 1,
        nodes: vec![1],
        jobs: jobs.iter().map(|(job, may)| (JobId(*job), may.to_vec())).collect(),
        own: own.iter().copied().map(JobId).collect(),
        strays: strays.map(<[u32]>::to_vec),
    }
}

fn found(outcome: &Outcome) -> (u64, u64, u64) {
    let (before, after) = (outcome.before.unwrap(), outcome.after.unwrap());
    (before.held / MIB, after.held / MIB, after.of_jobs / MIB)
}

#[test]
fn what_others_have_on_a_node_goes_and_what_its_own_jobs_have_stays() {
    let host = Fake::new(2, &[(5, 0, 100), (5, 1, 200), (6, 1, 30), (7, 1, 50), (0, 1, 9)]);
    let outcome = clear(&host, &order(&[(5, &[0]), (6, &[0])], &[7], None));
    assert_eq!(found(&outcome), (239, 9, 0));
    assert_eq!(outcome.jobs, [(JobId(5), 200 * MIB, None), (JobId(6), 30 * MIB, None)]);
    assert_eq!((host.mib(5, 0), host.mib(7, 1), host.mib(0, 1)), (300, 50, 9));
    assert_eq!(*host.may.borrow(), BTreeMap::from([(5, vec![0]), (6, vec![0])]));
    // Processes that are no jobs go only where that is allowed.
    let outcome = clear(&host, &order(&[], &[7], Some(&[0])));
    assert_eq!((found(&outcome), host.mib(0, 0)), ((9, 0, 0), 9));
}

#[test]
fn what_a_job_gets_meanwhile_goes_as_well() {
    let host = Fake { grows: 20, ..Fake::new(2, &[(5, 1, 200)]) };
    let outcome = clear(&host, &order(&[(5, &[0])], &[], None));
    assert_eq!(found(&outcome), (200, 0, 0));
    assert_eq!(host.mib(5, 0), 220);
}

#[test]
fn one_that_is_not_bound_is_told_and_counted() {
    let host = Fake { grows: 20, refuses: true, ..Fake::new(2, &[(5, 1, 200)]) };
    let outcome = clear(&host, &order(&[(5, &[0])], &[], None));
    assert_eq!(found(&outcome), (200, 20, 20));
    assert_eq!(outcome.jobs[0].2.as_deref(), Some("it refuses"));
}

#[test]
fn a_kernel_that_does_not_say_what_nodes_hold_is_no_clean_node() {
    let host = Fake::new(1, &[]);
    let outcome = clear(&host, &order(&[], &[], None));
    assert_eq!((outcome.before, outcome.after), (None, None));
    let kept = Kept::new(vec![1], 0);
    assert_eq!(kept.words(), "node 1: nobody knows what others have there");
}

fn machine() -> Topology {
    pinfold_topo::synthetic::facts_of("pack:2 numa:1 core:2 pu:2").unwrap().assemble().unwrap()
}

#[track_caller]
fn check_within(cpus: &str, want: &[u32]) {
    assert_eq!(nodes_within(&machine(), &cpus.parse().unwrap()), want, "{cpus:?}");
}

#[test]
fn a_node_is_a_sets_if_all_its_pus_are() {
    check_within("4-7", &[1]);
    check_within("0-7", &[0, 1]);
    check_within("0-6", &[0]);
    check_within("5-7", &[]);
    check_within("", &[]);
    // A PU that is off line is nobody's.
    let without_4 = machine().restricted(&"0-3,5-7".parse().unwrap());
    assert_eq!(nodes_within(&without_4, &"5-7".parse().unwrap()), [1]);
}

#[test]
fn others_keep_room_on_the_nodes_that_are_left() {
    let mut facts = pinfold_topo::synthetic::facts_of("pack:3 numa:1 core:1 pu:1").unwrap();
    facts.numa.iter_mut().for_each(|node| node.memory_bytes = Some(1600));
    let machine = facts.assemble().unwrap();
    let available = [(0, 700), (1, 1600), (2, 50)];
    assert_eq!(room_on(&machine, &available, &[0, 2], ROOM_PART), 350);
    assert_eq!(room_on(&machine, &available, &[0], SHORT_PART), 600);
    assert_eq!(room_on(&machine, &available, &[2], SHORT_PART), 0);
}

#[track_caller]
fn check_words(before: u64, after: u64, of_jobs: u64, open: Option<&str>, want: &str) {
    let foreign = |held, of_jobs| Foreign { total: 1_000_000, held, of_jobs };
    let kept = Kept {
        found: Some((foreign(before, 0), foreign(after, of_jobs))),
        open: open.map(str::to_owned),
        ..Kept::new(vec![1], 0)
    };
    assert_eq!(kept.words(), want);
}

#[test]
fn what_was_found_is_told() {
    check_words(
        32_400,
        4_100,
        0,
        None,
        "node 1: others held 3.2 % of the memory, 0.4 % since it was moved away",
    );
    check_words(
        500_000,
        10_000,
        2_000,
        None,
        "node 1: others held 50.0 % of the memory, 1.0 % since it was moved away (1 % was aimed at; 0.2 % is of jobs, \
         the rest of processes that are none or of files in memory)",
    );
    check_words(
        5_000,
        5_000,
        5_000,
        Some("they ran short"),
        "node 1: others held 0.5 % of the memory, 0.5 % since it was moved away; other jobs may lie there: they ran short",
    );
    let under_way = Kept { order: Some(3), ..Kept::new(vec![0, 1, 3], 0) };
    assert_eq!(under_way.words(), "nodes 0-1,3: the memory of others is being moved away");
}

#[test]
fn nodes_are_closed_to_all_but_their_set() {
    let mut nodes = OwnNodes::new().unwrap();
    nodes.kept.insert("a".to_owned(), Kept::new(vec![1], 0));
    nodes.kept.insert("b".to_owned(), Kept::new(vec![2, 3], 0));
    assert_eq!(nodes.closed_to(None), [1, 2, 3]);
    assert_eq!(nodes.closed_to(Some("b")), [1]);
    nodes.kept.get_mut("a").unwrap().open = Some("they ran short".to_owned());
    assert_eq!(nodes.closed_to(Some("b")), [0; 0]);
    assert!(!nodes.view("a").unwrap().kept && nodes.view("b").unwrap().kept);
    assert_eq!(nodes.view("c"), None);
}

#[test]
fn a_start_waits_for_a_minute_at_most() {
    let mut nodes = OwnNodes::new().unwrap();
    let mut kept = Kept::new(vec![1], 5);
    kept.waiting.insert(JobId(7), None);
    nodes.kept.insert("a".to_owned(), kept);
    assert_eq!(nodes.due_us(), Some(5 + WAIT_MAX_US));
    assert!(nodes.stops_waiting(JobId(7)) && !nodes.stops_waiting(JobId(7)));
    assert_eq!(nodes.due_us(), None);
}

#[test]
fn a_daemon_that_ends_binds_nobody_any_more() {
    let mut nodes = OwnNodes::new().unwrap();
    nodes.away.insert(JobId(3), vec![0]);
    nodes.under_way.insert(JobId(4), 1);
    assert_eq!(nodes.stop(), BTreeSet::from([JobId(3), JobId(4)]));
    assert!(*nodes.ended.lock().unwrap());
}
