//! Assigns ends of threads and processes to members.
//!
//! Births may be read further ahead than ends: on a busy host the end of a process may be read after its number, and
//! its parent's number, were reused. Two rules recognize such late ends. They rest on the kernel's order: the birth
//! of a process is reported before its end, and the end of a process before its children get another parent.
//! (Children of a process with several threads can get another parent when the first of these threads ends.) After
//! lost events neither rule applies.

use super::member::Member;
use super::{Census, End};

impl Census {
    /// A thread ended.
    pub fn ended(&mut self, end: &End, now_us: u64) {
        if let Some(keeper) = self.keepers.get_mut(&end.pid) {
            keeper.traced = false;
        }
        match self.members.get(&end.pid) {
            Some(generations) => {
                let member = generations.front().and_then(Option::as_ref);
                if member.is_some_and(|member| self.is_of_an_earlier(end, member)) {
                    return;
                }
            }
            None => {
                if !self.enter_unheard(end) {
                    return;
                }
            }
        }
        let Some(generations) = self.members.get_mut(&end.pid) else { return };
        if let Some(Some(member)) = generations.front_mut() {
            member.thread_ended(end);
        }
        if !end.is_last {
            return;
        }
        self.pop(end, now_us);
    }

    /// Adds a process whose first event is its end: its birth was missed, and its parent shows its job. `false`: the
    /// process belongs to no job.
    fn enter_unheard(&mut self, end: &End) -> bool {
        // All births below a traced parent were reported, so this process's parent is an earlier bearer of the
        // number.
        let Some(parent) = self.last(end.parent).filter(|parent| !parent.traced) else { return false };
        let tree = parent.tree;
        // Or the process was counted and this event is late: the ends of threads on several cores may be reported
        // after the last of them.
        if self.job_of(tree).is_some_and(|roll| roll.over.contains_key(&end.pid)) {
            return false;
        }
        self.enter(end.pid, Some(end.parent), tree, None);
        true
    }

    /// Whether the end belongs to an earlier process of the member's number: the end names another parent although
    /// the member's parent lives. Only the kernel's records of ends keep that order, and these have figures.
    fn is_of_an_earlier(&self, end: &End, member: &Member) -> bool {
        let is_told = end.used.is_some() && end.parent != 0;
        is_told && member.row.parent.is_some_and(|parent| parent != end.parent && self.lives(parent, member))
    }

    /// Whether the parent of this member certainly lives, as far as ends were reported. A process younger than the
    /// member or its tree only reuses the parent's number.
    fn lives(&self, parent: u32, member: &Member) -> bool {
        let is_it = |other: &Member| other.tree == member.tree && other.row.number < member.row.number;
        let is_whole = |other: &Member| other.traced && other.ended_threads == 0;
        let front = self.members.get(&parent).and_then(|generations| generations.front()?.as_ref());
        let keeper = self.keepers.get(&parent);
        front.is_some_and(|other| is_it(other) && is_whole(other))
            || keeper.is_some_and(|keeper| keeper.traced && keeper.trees_before < member.tree)
    }

    /// Births or ends were lost: the loss may include the end of any known process and births of its children. The
    /// same holds for processes with births still to be read, until [`Census::caught_up`].
    pub fn untrace(&mut self) {
        self.members.values_mut().flatten().flatten().for_each(|member| member.traced = false);
        self.keepers.values_mut().for_each(|keeper| keeper.traced = false);
        self.has_gap = true;
    }

    /// All kernel events were read, without a loss since.
    pub fn caught_up(&mut self) {
        self.has_gap = false;
    }

    /// Ends the oldest process of this number.
    pub(super) fn pop(&mut self, end: &End, now_us: u64) {
        let Some(generations) = self.members.get_mut(&end.pid) else { return };
        let first = generations.pop_front();
        let is_among = |tree: u64| generations.iter().flatten().any(|other| other.tree == tree);
        if let Some(Some(member)) = &first
            && !is_among(member.tree)
            && let Some(tree) = self.trees.get_mut(&member.tree)
        {
            tree.pids.remove(&end.pid);
        }
        if generations.is_empty() {
            self.members.remove(&end.pid);
        }
        if let Some(Some(member)) = first {
            let tree = member.tree;
            let row = member.over(end, now_us);
            self.file(tree, row);
            // A tree without living processes grows no more, and only living processes are claimed.
            if self.trees.get(&tree).is_some_and(|of| of.pids.is_empty()) {
                self.remove_tree(tree);
            }
        }
    }
}
