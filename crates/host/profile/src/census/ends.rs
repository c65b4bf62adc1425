//! Ends of threads and processes, and whose they are.
//!
//! Births may be read further ahead than ends: on a busy host the end of a process can wait to be read until another has its
//! number, and its parent's. Two rules tell such late ends apart. They rest on the order in which the kernel tells: of the
//! birth of a process before its end, and of the end of a process before it gives the children another parent. (Of a process
//! with several threads the children can have another one when the first of these ends.) Where something was lost, neither
//! rule says anything.

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

    /// Takes in a process of which the first word is an end: born unheard, its job shows by its parent. `false`: it is
    /// nobody's.
    fn enter_unheard(&mut self, end: &End) -> bool {
        // All children of a parent that is traced were heard of: this one's parent had the number before.
        let Some(parent) = self.last(end.parent).filter(|parent| !parent.traced) else { return false };
        let tree = parent.tree;
        // Or it was counted, and this comes late: threads that end at once on several cores may be told of after the last
        // of them.
        if self.job_of(tree).is_some_and(|roll| roll.over.contains_key(&end.pid)) {
            return false;
        }
        self.enter(end.pid, Some(end.parent), tree, None);
        true
    }

    /// Whether this is the end of a process that had the member's number before: it names another parent, though that of
    /// the member has not ended. Only the kernel's records of ends keep that order, and they have figures.
    fn is_of_an_earlier(&self, end: &End, member: &Member) -> bool {
        let is_told = end.used.is_some() && end.parent != 0;
        is_told && member.row.parent.is_some_and(|parent| parent != end.parent && self.lives(parent, member))
    }

    /// Whether it is certain that the parent of this member has not ended, as far as ends were told. What came after the
    /// member, or after its tree, only has the parent's number.
    fn lives(&self, parent: u32, member: &Member) -> bool {
        let is_it = |other: &Member| other.tree == member.tree && other.row.number < member.row.number;
        let is_whole = |other: &Member| other.traced && other.ended_threads == 0;
        let front = self.members.get(&parent).and_then(|generations| generations.front()?.as_ref());
        let keeper = self.keepers.get(&parent);
        front.is_some_and(|other| is_it(other) && is_whole(other))
            || keeper.is_some_and(|keeper| keeper.traced && keeper.trees_before < member.tree)
    }

    /// Births or ends were lost: of each process that is known now, its end and its children's births may be among them.
    /// So it is with those of which the births still wait to be read, until [`Census::caught_up`].
    pub fn untrace(&mut self) {
        self.members.values_mut().flatten().flatten().for_each(|member| member.traced = false);
        self.keepers.values_mut().for_each(|keeper| keeper.traced = false);
        self.has_gap = true;
    }

    /// All was read that the kernel had told, and since then nothing was lost.
    pub fn caught_up(&mut self) {
        self.has_gap = false;
    }

    /// The oldest process of this number is over.
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
            // It grows no more, and only one that lives is claimed.
            if self.trees.get(&tree).is_some_and(|of| of.pids.is_empty()) {
                self.remove_tree(tree);
            }
        }
    }
}
