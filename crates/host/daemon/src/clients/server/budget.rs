//! How much users may ask in a turn of the loop, in units of [`cost`](crate::clients::cost). Pure.
//!
//! All users together have [`COST_OF_ALL`] units in a turn, so that a turn is short however many ask, and each an even share
//! of them, so that the user who asks first takes nothing from the others. A request is heard as long as some of a share is left,
//! and may cost more than that: its user is then in debt, and is heard again once as many turns have paid for it. Root and
//! the daemon's own user are not among them: they have [`COST_AT_ONCE`] units, whatever others ask.

use std::collections::BTreeMap;

use crate::clients::cost::COST_AT_ONCE;

/// What all users but the trusted ones may cost in a turn, and one request more. Small requests take up to 0.1 ms a unit,
/// large ones much less.
pub(crate) const COST_OF_ALL: u32 = 256;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Budget {
    /// The daemon's own user.
    own: u32,
    /// What the requests of each user cost in this turn, and what those before cost beyond their turns; of each that was
    /// there to be heard in this turn, also if it was not.
    spent: BTreeMap<u32, u32>,
    /// What those that are not trusted have cost in this turn.
    all: u32,
    /// The share of each of them.
    share: u32,
}

impl Budget {
    /// The budget of a daemon of this user, before its first turn.
    pub(super) fn new(own: u32) -> Self {
        Self { own, spent: BTreeMap::new(), all: 0, share: COST_OF_ALL }
    }

    fn is_trusted(&self, uid: u32) -> bool {
        uid == 0 || uid == self.own
    }

    fn share_of(&self, uid: u32) -> u32 {
        if self.is_trusted(uid) { COST_AT_ONCE } else { self.share }
    }

    /// A turn begins: it pays a share of what each user owes.
    pub(super) fn begin_turn(&mut self) {
        let asked = self.spent.keys().filter(|&&uid| !self.is_trusted(uid)).count();
        self.share = (COST_OF_ALL / u32::try_from(asked).unwrap_or(u32::MAX).max(1)).max(1);
        self.all = 0;
        let (own, share) = (self.own, self.share);
        self.spent.retain(|&uid, spent| {
            let paid = if uid == 0 || uid == own { COST_AT_ONCE } else { share };
            *spent = spent.saturating_sub(paid);
            *spent > 0
        });
    }

    /// Whether one more request of a user is heard in this turn.
    pub(super) fn may_ask(&mut self, uid: u32) -> bool {
        let share = self.share_of(uid);
        let has_left = *self.spent.entry(uid).or_default() < share;
        has_left && (self.is_trusted(uid) || self.all < COST_OF_ALL)
    }

    /// A request of a user cost so much.
    pub(super) fn spend(&mut self, uid: u32, units: u32) {
        let spent = self.spent.entry(uid).or_default();
        *spent = spent.saturating_add(units);
        if !self.is_trusted(uid) {
            self.all = self.all.saturating_add(units);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 900;

    /// Has each user ask for requests of this cost as long as it may, in this order; gives how many each was heard with.
    fn turn(budget: &mut Budget, users: &[(u32, u32)]) -> Vec<u32> {
        budget.begin_turn();
        let heard = |&(uid, cost): &(u32, u32)| {
            let mut count = 0;
            while budget.may_ask(uid) {
                budget.spend(uid, cost);
                count += 1;
            }
            count
        };
        users.iter().map(heard).collect()
    }

    #[test]
    fn a_turn_is_as_short_for_many_users_as_for_one() {
        let mut budget = Budget::new(OWN);
        assert_eq!(turn(&mut budget, &[(1, 1)]), [256]);
        let users: Vec<(u32, u32)> = (1..=20).map(|uid| (uid, 1)).collect();
        // The first turn does not know yet how many ask.
        assert_eq!(turn(&mut budget, &users).iter().sum::<u32>(), 256);
        for _ in 0..100 {
            let heard = turn(&mut budget, &users);
            assert!(heard.iter().all(|&count| count <= 256) && heard.iter().sum::<u32>() <= 256, "{heard:?}");
        }
        assert_eq!(turn(&mut budget, &users), [12; 20]);
    }

    #[test]
    fn large_requests_of_many_come_one_after_the_other_and_small_ones_between() {
        let mut budget = Budget::new(OWN);
        let users: Vec<(u32, u32)> = (1..=10).map(|uid| (uid, 1700)).chain([(11, 2)]).collect();
        let mut sums = vec![0; users.len()];
        let mut large_at_once = 0;
        for _ in 0..2000 {
            let heard = turn(&mut budget, &users);
            large_at_once = large_at_once.max(heard[..10].iter().sum());
            sums.iter_mut().zip(&heard).for_each(|(sum, count)| *sum += count);
        }
        assert_eq!(large_at_once, 1, "no turn has two of them");
        // Each is heard as often as its share pays for.
        assert!(sums[..10].iter().all(|&sum| (20..=32).contains(&sum)), "{sums:?}");
        assert!(sums[10] > 10_000, "{sums:?}");
    }

    #[test]
    fn root_and_the_daemons_user_are_heard_whatever_others_ask() {
        let mut budget = Budget::new(OWN);
        let heard = turn(&mut budget, &[(1, 10_000), (2, 1), (0, 8), (OWN, 8)]);
        assert_eq!(heard, [1, 0, 128, 128]);
        // The debt of the first is paid off, and the second is heard meanwhile.
        let heard = turn(&mut budget, &[(1, 10_000), (2, 1)]);
        assert_eq!(heard, [0, 128]);
    }
}
