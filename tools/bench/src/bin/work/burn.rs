//! The simplest work: steps that each depend on their predecessor.

use std::hint::black_box;

/// `turns` steps of a xorshift generator from `state`: each depends on its predecessor, so no compiler shortens it.
pub(crate) fn burn(mut state: u64, turns: u64) -> u64 {
    for _ in 0..turns {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state)
}
