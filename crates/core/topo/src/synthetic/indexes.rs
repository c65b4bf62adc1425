//! The attribute `indexes=`: which OS indexes the objects of a level have, in their order.

use super::SyntheticError;
use super::words::number;
use crate::cpuset::PU_OS_MAX;

/// A loop of an interleaving: every `step` objects the next of `count` indexes.
#[derive(Debug, Clone, Copy)]
struct Loop {
    step: usize,
    count: usize,
}

/// The indexes of `total` objects: a list, or an interleaving by numbers (`2*4:1*2`) or by kinds of object
/// (`core:pack`); `above` gives the object count of a kind.
pub(super) fn of(
    text: &str,
    total: usize,
    above: impl Fn(&str) -> Option<usize>,
) -> Result<Vec<usize>, SyntheticError> {
    let wrong = || SyntheticError::Indexes { text: text.to_owned(), total };
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b',') {
        return list(text, total);
    }
    let loops = if text.starts_with(|first: char| first.is_ascii_digit()) {
        text.split(':').map(by_numbers).collect::<Option<Vec<Loop>>>()
    } else {
        by_kinds(text, total, above)
    };
    interleaved(loops.ok_or_else(wrong)?, total).ok_or_else(wrong)
}

/// A list with an index for each of `total` objects.
pub(super) fn list(text: &str, total: usize) -> Result<Vec<usize>, SyntheticError> {
    let wrong = || SyntheticError::Indexes { text: text.to_owned(), total };
    let listed: Option<Vec<usize>> = text.split(',').map(|word| word.parse().ok()).collect();
    listed.filter(|listed| are_usable(listed, total)).ok_or_else(wrong)
}

fn are_usable(indexes: &[usize], total: usize) -> bool {
    let mut sorted = indexes.to_vec();
    sorted.sort_unstable();
    let distinct = sorted.windows(2).all(|pair| pair[0] < pair[1]);
    distinct && indexes.len() == total && sorted.last().is_none_or(|&last| last <= PU_OS_MAX as usize)
}

fn by_numbers(text: &str) -> Option<Loop> {
    let (step, count) = text.split_once('*')?;
    let positive = |text| number(text).filter(|&number: &usize| number > 0);
    Some(Loop { step: positive(step)?, count: positive(count)? })
}

fn by_kinds(text: &str, total: usize, above: impl Fn(&str) -> Option<usize>) -> Option<Vec<Loop>> {
    let widths: Vec<usize> = text.split(':').map(above).collect::<Option<_>>()?;
    let mut loops = Vec::with_capacity(widths.len());
    for &width in &widths {
        // Count within the nearest larger kind of the list.
        let within = widths.iter().copied().filter(|&other| other < width).max().unwrap_or(1);
        loops.push(Loop { step: total / width, count: width / within });
    }
    Some(loops)
}

fn interleaved(mut loops: Vec<Loop>, total: usize) -> Option<Vec<usize>> {
    let covered = loops.iter().try_fold(1usize, |product, one| product.checked_mul(one.count))?;
    if covered != total {
        // The innermost loop may be left out.
        let smallest = loops.iter().map(|one| one.step).min()?;
        if covered == 0 || smallest.checked_mul(covered) != Some(total) {
            return None;
        }
        loops.push(Loop { step: 1, count: smallest });
    }
    let mut indexes = vec![0; total];
    let mut factor = 1usize;
    for Loop { step, count } in loops {
        for (place, index) in indexes.iter_mut().enumerate() {
            *index += (place / step) % count * factor;
        }
        factor = factor.checked_mul(count)?;
    }
    are_usable(&indexes, total).then_some(indexes)
}
