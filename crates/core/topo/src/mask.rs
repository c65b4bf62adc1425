//! Sets of PUs as hexadecimal masks: the kernel's `*_map` files (`00000000,0000000f`) and Slurm's masks
//! (`0xf`).

use crate::cpuset::{CpuSet, PU_OS_MAX};
use crate::index::PuOs;

/// Why a text is not a mask of PUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseMaskError {
    /// A character is no hexadecimal digit, or the mask has no digits.
    #[error("`{0}` is not a hexadecimal mask of PUs such as 0xff")]
    Digits(String),
    /// The mask has a PU above [`PU_OS_MAX`].
    #[error("the mask `{0}` names a PU above the highest possible, {PU_OS_MAX}")]
    TooHigh(String),
}

impl CpuSet {
    /// Reads a mask: hexadecimal digits, optionally after `0x`; a comma ends a group of 32 PUs, as in the
    /// kernel's `shared_cpu_map`. Surrounding blanks are ignored.
    ///
    /// # Errors
    /// When the text is no mask; see [`ParseMaskError`].
    pub fn from_mask(text: &str) -> Result<Self, ParseMaskError> {
        let text = text.trim();
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        if digits.is_empty() {
            return Err(ParseMaskError::Digits(text.to_owned()));
        }
        let groups = digits.contains(',');
        let mut set = Self::new();
        let mut base = 0u32;
        for group in digits.rsplit(',') {
            if group.is_empty() || (groups && group.len() > 8) {
                return Err(ParseMaskError::Digits(text.to_owned()));
            }
            for (position, digit) in (0u32..).zip(group.bytes().rev()) {
                let value =
                    (digit as char).to_digit(16).ok_or_else(|| ParseMaskError::Digits(text.to_owned()))?;
                for bit in (0..4).filter(|bit| value >> bit & 1 == 1) {
                    let pu = base.saturating_add(position * 4 + bit);
                    if pu > PU_OS_MAX {
                        return Err(ParseMaskError::TooHigh(text.to_owned()));
                    }
                    set.insert(PuOs(pu));
                }
            }
            base = base.saturating_add(32);
        }
        Ok(set)
    }

    /// The set as Slurm's mask: `0x` and digits without leading zeros (`0x0` when empty).
    #[must_use]
    pub fn to_mask(&self) -> String {
        let Some(PuOs(last)) = self.last() else { return "0x0".to_owned() };
        let digit = |position: u32| {
            let value =
                (0..4).filter(|&bit| self.contains(PuOs(position * 4 + bit))).map(|bit| 1 << bit).sum();
            char::from_digit(value, 16).expect("four bits")
        };
        let digits: String = (0..=last / 4).rev().map(digit).collect();
        format!("0x{digits}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, want: Result<&str, ParseMaskError>) {
        assert_eq!(CpuSet::from_mask(text).map(|set| set.to_string()), want.map(str::to_owned), "{text:?}");
    }

    #[test]
    fn masks() {
        check("f\n", Ok("0-3"));
        check("0xF0", Ok("4-7"));
        check("00000001,00000000,80000000", Ok("31,64"));
        check("0", Ok(""));
        check("10000000000000000", Ok("64"));
        check("", Err(ParseMaskError::Digits(String::new())));
        check("0x", Err(ParseMaskError::Digits("0x".into())));
        check("1,,2", Err(ParseMaskError::Digits("1,,2".into())));
        check("-1", Err(ParseMaskError::Digits("-1".into())));
        let long = format!("1{}", "0".repeat(40_000));
        check(&long, Err(ParseMaskError::TooHigh(long.clone())));
    }

    proptest! {
        #[test]
        fn round_trip(pus in proptest::collection::btree_set(0u32..300, 0..40)) {
            let set: CpuSet = pus.iter().map(|&pu| PuOs(pu)).collect();
            prop_assert_eq!(CpuSet::from_mask(&set.to_mask()), Ok(set));
        }

        #[test]
        fn never_panics(text in "[0-9a-fx, -]{0,40}") {
            let _ = CpuSet::from_mask(&text);
        }
    }
}
