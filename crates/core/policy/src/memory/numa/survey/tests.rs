//! The figures are those of their definitions, of which each is written here as it is said; and the work of a start grows
//! with the nodes, not with their square.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use pinfold_place::chunk;

use super::*;
use crate::memory::numa::groups::RESERVE_MILLI;
use crate::memory::numa::join::Want;
use crate::{Action, Class, Event, Instant, Machine, MemorySettings, NodeMemory, Policy, Request, Settings};

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// A node or a job was looked at.
pub(crate) fn look() {
    LOOKS.set(LOOKS.get() + 1);
}

/// The groups, and each node that is in none as one without jobs.
fn all(rooms: &Rooms) -> Vec<NodeGroup> {
    let taken: Nodes = rooms.nodes.chunks.iter().flat_map(|group| &group.nodes).copied().collect();
    let free = rooms.nodes.nodes.keys().filter(|node| !taken.contains(node));
    let alone = free.map(|&node| NodeGroup { nodes: Nodes::from([node]), jobs: BTreeSet::new() });
    rooms.nodes.chunks.iter().cloned().chain(alone).collect()
}

fn nodes_in(groups: &[&NodeGroup]) -> Nodes {
    groups.iter().flat_map(|group| &group.nodes).copied().collect()
}

fn room(rooms: &Rooms, groups: &[&NodeGroup]) -> u64 {
    let jobs = groups.iter().flat_map(|group| &group.jobs).copied().collect();
    rooms.nodes.usable(&nodes_in(groups), &jobs).saturating_sub(placement::taken(rooms, &jobs))
}

fn wild_by_definition(rooms: &Rooms, except: Option<JobId>) -> Wild {
    let mut wild = Wild::new();
    let is_bound = |id| rooms.nodes.chunks.iter().any(|group| group.jobs.contains(&id));
    for job in rooms.jobs.running().filter(|job| Some(job.id()) != except && !is_bound(job.id())) {
        let more = placement::need(rooms, job).unwrap_or(0).saturating_sub(job.held.total());
        let cpus = binding::cpus_of(&rooms.cores, &rooms.settings, job);
        let home = cpus.first().and_then(|pu| rooms.nodes.node_of.get(&pu));
        if let Some(&home) = home.or_else(|| rooms.nodes.nodes.keys().next()).filter(|_| more > 0) {
            let all = wild.entry(home).or_default();
            *all = all.saturating_add(more);
        }
    }
    wild
}

fn taken_by(rooms: &Rooms, wild: &Wild, nodes: &Nodes) -> u64 {
    let at = |nodes: &Nodes| {
        let here = wild.iter().filter(|(node, _)| nodes.contains(node));
        here.fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes))
    };
    let others = all(rooms).into_iter().filter(|group| group.nodes.is_disjoint(nodes));
    let beyond = others.map(|group| at(&group.nodes).saturating_sub(room(rooms, &[&group])));
    beyond.fold(at(nodes), u64::saturating_add)
}

fn has_room(rooms: &Rooms, groups: &[&NodeGroup], claim: u64, wild: &Wild) -> bool {
    room(rooms, groups) >= claim.saturating_add(taken_by(rooms, wild, &nodes_in(groups)))
}

/// The best of all ways to join, tried one by one; where several are as good, the first.
fn joined(rooms: &Rooms, base: &NodeGroup, others: &[NodeGroup], claim: u64, wild: &Wild) -> Option<Nodes> {
    let nodes = &rooms.nodes.nodes;
    let capacity = nodes.values().map(|node| node.capacity).fold(0, u64::saturating_add);
    let mean = capacity / nodes.len() as u64 / 1000 * (1000 - RESERVE_MILLI);
    let worth = chunk::nodes_for(claim, mean).max(base.nodes.len());
    let mut others: Vec<&NodeGroup> = others.iter().collect();
    others.sort_by_key(|group| Reverse(room(rooms, &[group])));
    [worth, nodes.len()].into_iter().find_map(|most| {
        let small: Vec<&NodeGroup> =
            others.iter().copied().filter(|group| group.nodes.len() <= most).collect();
        let ways = (1u32..1 << small.len()).map(|mask| {
            let more =
                small.iter().enumerate().filter(move |(at, _)| mask >> at & 1 == 1).map(|(_, one)| *one);
            std::iter::once(base).chain(more).collect::<Vec<&NodeGroup>>()
        });
        let fits = |way: &Vec<&NodeGroup>| nodes_in(way).len() <= most && has_room(rooms, way, claim, wild);
        let best = ways.filter(fits).min_by_key(|way| (nodes_in(way).len(), room(rooms, way)));
        best.map(|way| nodes_in(&way))
    })
}

/// Whether a survey says what the definitions do.
pub(crate) fn audit(rooms: &Rooms) {
    let ids = rooms.jobs.lives().map(Job::id).map(Some).chain([None]);
    for except in ids.filter(|_| !rooms.nodes.nodes.is_empty()) {
        let (survey, groups) = (Survey::of(rooms, except), all(rooms));
        let wild = wild_by_definition(rooms, except);
        assert_eq!(survey.wild, wild, "but for {except:?}");
        assert_eq!(survey.parts.len(), groups.len());
        for (part, group) in survey.parts.iter().zip(&groups) {
            assert_eq!(part.to_group(), *group);
            assert_eq!(part.room(), room(rooms, &[group]), "{group:?}");
            assert_eq!(survey.taken_by_others(part), taken_by(rooms, &wild, &group.nodes), "{group:?}");
            for &node in &group.nodes {
                let alone = Nodes::from([node]);
                assert_eq!(survey.taken_within(part, &alone), taken_by(rooms, &wild, &alone), "{node}");
            }
        }
        audit_joins(&survey, &groups, except);
    }
}

fn audit_joins(survey: &Survey<'_>, groups: &[NodeGroup], except: Option<JobId>) {
    let rooms = survey.rooms;
    let need = except.and_then(|id| placement::need(rooms, &rooms.jobs[&id]));
    for claim in need.into_iter().chain([0, 1 << 30, 3 << 30, 5 << 30]) {
        let want = Want { claim, count: &|_| 0, suffices: &|_| true };
        for base in 0..groups.len() {
            let fits = has_room(rooms, &[&groups[base]], claim, &survey.wild);
            assert_eq!(survey.suffice(&[base], &want), fits, "{claim} beside {:?}", groups[base]);
            assert_eq!(survey.has_room(&survey.parts[base], claim), fits);
            let is_other = |at: &usize| *at != base;
            let others: Vec<usize> = (0..groups.len()).filter(is_other).collect();
            let other_groups: Vec<NodeGroup> = others.iter().map(|&at| groups[at].clone()).collect();
            let found = survey.joined(&[base], others, &want);
            let found: Option<Nodes> =
                found.map(|parts| parts.iter().flat_map(|&at| survey.parts[at].nodes()).collect());
            let defined = joined(rooms, &groups[base], &other_groups, claim, &survey.wild);
            assert_eq!(found, defined, "{claim} beside {:?}", groups[base]);
        }
    }
}

/// Has it take an event in, and whatever starts start.
fn step(policy: &mut Policy, event: Event) {
    for decision in policy.step(Instant(0), event) {
        if matches!(decision.action, Action::Start { .. }) {
            step(policy, Event::Started(decision.job));
        }
    }
}

/// How often a node or a job is looked at when one more job starts on a host of so many nodes, on each of which a job is
/// bound and another is not.
fn looks_for_a_start(nodes: u32) -> u64 {
    const NODE_BYTES: u64 = 1000 << 20;
    let mut facts =
        pinfold_topo::synthetic::facts_of(&format!("pack:{nodes} numa:1 core:4 pu:1")).expect("a machine");
    facts.numa.iter_mut().for_each(|node| node.memory_bytes = Some(NODE_BYTES));
    let topology = facts.assemble().expect("a machine");
    let mut policy = Policy::default();
    let memory = MemorySettings { budget_bytes: u64::MAX, ..MemorySettings::default() };
    step(&mut policy, Event::Configure(Settings { factor_milli: 1500, memory, ..Settings::default() }));
    step(&mut policy, Event::Machine(Machine::of(&topology, &topology.usable())));
    let available_bytes = (0..nodes).map(|node| (node, NODE_BYTES)).collect();
    step(&mut policy, Event::Nodes(NodeMemory { available_bytes, jobs: vec![] }));
    let ask = |job: u64, class, bytes| Request { class, memory: Some(bytes), ..Request::plain(JobId(job)) };
    for job in 0..u64::from(nodes) {
        step(&mut policy, Event::Submit(ask(2 * job, Some(Class::Backfill), 10 << 20)));
        step(&mut policy, Event::Submit(ask(2 * job + 1, None, 510 << 20)));
    }
    assert_eq!(policy.chunks().len(), nodes as usize, "a job is bound to each node");
    LOOKS.set(0);
    step(&mut policy, Event::Submit(ask(u64::MAX, None, 100 << 20)));
    assert_eq!(policy.chunks().iter().map(|chunk| chunk.jobs.len()).sum::<usize>(), nodes as usize + 1);
    LOOKS.get()
}

#[test]
fn the_work_of_a_start_grows_with_the_nodes() {
    let (small, large) = (looks_for_a_start(16), looks_for_a_start(128));
    assert!(small > 16, "all is looked at: {small}");
    assert!(large < 12 * small, "for eight times the nodes {large} looks instead of {small}");
}
