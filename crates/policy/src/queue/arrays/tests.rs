//! What an array looks at when one more of its members may start.

use super::{Arrays, NEXT_MAX};
use crate::{ArrayLimit, Instant, JobId, Request};

/// Each end, each hold and each cancellation in an array looks at those that are next: with ten thousand members, and as
/// many that may have started at once, that must not be all of them.
#[test]
fn the_first_few_that_stand_are_next() {
    let mut arrays = Arrays::default();
    for job in (1..=10_000).map(JobId) {
        let array = Some(ArrayLimit { array: 1, at_most: 10_000 });
        arrays.join(&Request { array, ..Request::plain(job) }, Instant(0));
        // The others are held.
        if job.0 > 5_000 {
            arrays.stands(Some(1), job);
        }
    }
    let next: Vec<u64> = arrays.next(1).map(|job| job.0).collect();
    assert_eq!(next, (5_001..).take(NEXT_MAX).collect::<Vec<u64>>());
    arrays.left_queue(Some(1), JobId(5_001));
    assert_eq!(arrays.next(1).next(), Some(JobId(5_002)));
}

#[test]
fn no_more_are_next_than_may_start() {
    let mut arrays = Arrays::default();
    let member =
        |job| Request { array: Some(ArrayLimit { array: 1, at_most: 3 }), ..Request::plain(JobId(job)) };
    for job in 1..=5 {
        arrays.join(&member(job), Instant(0));
        arrays.stands(Some(1), JobId(job));
    }
    arrays.left_queue(Some(1), JobId(1));
    arrays.began(&member(1));
    assert_eq!(arrays.next(1).collect::<Vec<_>>(), [JobId(2), JobId(3)]);
}
