//! What of a host is a user's where several users have daemons on it, none of them root's: an even part of its cores
//! and memory. Pure; the same in all daemons that see the same users, so that their parts do not overlap.

use std::ops::Range;

use pinfold_topo::CpuSet;

/// Of how many active users this is which one, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// Active users, this one included.
    users: usize,
    /// How many of them have a lower number.
    place: usize,
}

impl Default for Share {
    /// The whole host.
    fn default() -> Self {
        Self { users: 1, place: 0 }
    }
}

impl Share {
    /// That of `own`, beside `others` who are active. Each daemon counts its own user.
    pub(crate) fn of(own: u32, others: impl IntoIterator<Item = u32>) -> Self {
        let others: std::collections::BTreeSet<u32> = others.into_iter().filter(|&uid| uid != own).collect();
        Self { users: others.len() + 1, place: others.range(..own).count() }
    }

    /// Active users.
    pub(crate) fn users(self) -> usize {
        self.users
    }

    /// Whether the host is this user's alone.
    pub(crate) fn is_whole(self) -> bool {
        self.users == 1
    }

    /// The part of `bytes`.
    pub(crate) fn bytes(self, bytes: u64) -> u64 {
        bytes / self.users as u64
    }

    /// Which of `count` cores are this user's, by their places. Where there are more users than cores, each has one, and
    /// some share it.
    pub(crate) fn cores(self, count: usize) -> Range<usize> {
        if count == 0 {
            return 0..0;
        }
        if self.users > count {
            let core = self.place % count;
            return core..core + 1;
        }
        self.place * count / self.users..(self.place + 1) * count / self.users
    }

    /// The PUs among `within` of as many cores as the part of `cores`, all of the host, has: its own first.
    pub(crate) fn pus(self, cores: &[CpuSet], within: &CpuSet) -> CpuSet {
        let own = self.cores(cores.len());
        let count = own.len();
        let others = (0..own.start).chain(own.end..cores.len());
        let found = own.chain(others).map(|core| cores[core].intersection(within));
        found.filter(|core| !core.is_empty()).take(count).fold(CpuSet::new(), |all, core| all.union(&core))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pinfold_topo::PuOs;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn two_users_on_two_cores() {
        let cores: Vec<CpuSet> = ["0,2", "1,3"].map(|set| set.parse().unwrap()).into();
        let all = "0-3".parse().unwrap();
        let [one, other] = [Share::of(1000, [1001]), Share::of(1001, [1000, 1001])];
        assert_eq!([one, other].map(|share| share.pus(&cores, &all).to_string()), ["0,2", "1,3"]);
        assert_eq!([one, other].map(|share| share.bytes(9)), [4, 4]);
        assert_eq!(Share::of(7, []), Share::default());
        assert!(Share::of(7, [7]).is_whole(), "other daemons of a user are no other users");
        // What a user is bounded to itself, it has as many cores of as are its part.
        assert_eq!(one.pus(&cores, &"1,3".parse().unwrap()).to_string(), "1,3");
        assert_eq!(one.pus(&cores, &CpuSet::new()), CpuSet::new());
        assert_eq!(Share::of(1, [0, 2, 3]).cores(2), 1..2, "more users than cores");
    }

    proptest! {
        /// The parts of all users are the host, each at least its even part, whoever they are.
        #[test]
        fn parts_are_even_and_no_more_than_the_host(
            users in proptest::collection::btree_set(any::<u32>(), 1..40),
            count in 0usize..80,
            bytes in any::<u64>(),
        ) {
            let shares: Vec<Share> = users.iter().map(|&own| Share::of(own, users.iter().copied())).collect();
            let even = count / users.len();
            let taken: Vec<usize> = shares.iter().flat_map(|share| share.cores(count)).collect();
            for share in &shares {
                prop_assert!(share.cores(count).len() >= even.max(usize::from(count > 0)));
                prop_assert!(share.cores(count).len() <= even + 1);
                prop_assert_eq!(share.bytes(bytes), bytes / users.len() as u64);
            }
            prop_assert!(shares.iter().map(|share| u128::from(share.bytes(bytes))).sum::<u128>() <= u128::from(bytes));
            let distinct: BTreeSet<usize> = taken.iter().copied().collect();
            if users.len() <= count {
                prop_assert_eq!(taken.len(), count, "each core has one user");
                prop_assert_eq!(distinct.len(), count);
            } else {
                prop_assert_eq!(distinct.len(), count, "no core is idle");
            }
        }

        /// Another user can take as much as its own even part from anybody, whatever it says, and idle ones nothing.
        #[test]
        fn one_more_user_takes_no_more_than_its_even_part(
            own in any::<u32>(),
            others in proptest::collection::btree_set(any::<u32>(), 0..40),
            liar in any::<u32>(),
            times in 1usize..50,
            count in 0usize..80,
        ) {
            let before = Share::of(own, others.iter().copied());
            let lies = std::iter::repeat_n(liar, times);
            let after = Share::of(own, others.iter().copied().chain(lies));
            prop_assert!(after.users() <= before.users() + 1);
            prop_assert!(after.cores(count).len() >= count / (before.users() + 1));
            prop_assert!(after.cores(count).len() <= before.cores(count).len() + 1, "as parts are rounded");
        }

        /// A user that is bounded to some PUs has those of as many cores as its part, if there are so many.
        #[test]
        fn a_bounded_user_has_its_part_of_what_it_may_have(
            own in 0u32..50,
            others in proptest::collection::btree_set(0u32..50, 0..8),
            may in proptest::collection::vec(any::<bool>(), 0..30),
        ) {
            let cores: Vec<CpuSet> = (0..may.len()).map(|core| CpuSet::single(PuOs(u32::try_from(core).unwrap()))).collect();
            let within: CpuSet = (0u32..).zip(&may).filter(|(_, may)| **may).map(|(core, _)| PuOs(core)).collect();
            let share = Share::of(own, others);
            let pus = share.pus(&cores, &within);
            prop_assert!(pus.is_subset(&within));
            prop_assert_eq!(pus.len(), within.len().min(share.cores(cores.len()).len()));
        }
    }
}
