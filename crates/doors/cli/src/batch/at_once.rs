//! How many lines of a batch run at once, as GNU parallel's `-j` says it.

use std::str::FromStr;

/// A number of lines, fixed or relative to the number of processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtOnce {
    /// A job for each slot of the daemon.
    Slots,
    Lines(u32),
    More(u32),
    Less(u32),
    /// A part of the processors, in hundredths of a percent.
    Part(u64),
}

impl AtOnce {
    /// The number of lines for a number of processors (PUs) for jobs; at least 1.
    pub(crate) fn lines(self, processors: usize) -> usize {
        let wide = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let lines = match self {
            Self::Slots => usize::MAX,
            Self::Lines(lines) => wide(lines),
            Self::More(more) => processors.saturating_add(wide(more)),
            Self::Less(less) => processors.saturating_sub(wide(less)),
            Self::Part(part) => {
                let whole = u128::from(part) * u128::try_from(processors).unwrap_or(u128::MAX);
                usize::try_from(whole.div_ceil(10_000)).unwrap_or(usize::MAX)
            }
        };
        lines.max(1)
    }
}

impl FromStr for AtOnce {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("`{text}` is not N, +N, -N, N% or 0");
        let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse::<u32>().map_err(|_| wanted()),
            false => Err(wanted()),
        };
        if let Some(percent) = text.strip_suffix('%') {
            return part(percent).map(Self::Part).ok_or_else(wanted);
        }
        match text.as_bytes().first() {
            Some(b'+') => number(&text[1..]).map(Self::More),
            Some(b'-') => number(&text[1..]).map(Self::Less),
            _ => number(text).map(|lines| if lines == 0 { Self::Slots } else { Self::Lines(lines) }),
        }
    }
}

/// Hundredths of a percent.
fn part(percent: &str) -> Option<u64> {
    let (whole, rest) = percent.split_once('.').unwrap_or((percent, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(rest) || rest.len() > 2 {
        return None;
    }
    let rest: u64 = format!("{rest:0<2}").parse().ok()?;
    let part = u64::from(whole.parse::<u32>().ok()?) * 100 + rest;
    (part > 0).then_some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_gnu_parallel_counts() {
        let check = |text: &str, on_eight: usize| {
            assert_eq!(text.parse::<AtOnce>().map(|at_once| at_once.lines(8)), Ok(on_eight), "{text}");
        };
        check("3", 3);
        check("0", usize::MAX);
        check("+1", 9);
        check("+0", 8);
        check("-1", 7);
        check("-8", 1);
        check("-100", 1);
        check("50%", 4);
        check("200%", 16);
        check("10.5%", 1);
        check("30%", 3);
        check("1%", 1);
        for bad in ["", "x", "%", "0%", "-50%", "+", "-", "1.5", "1e3", "+-1", "1.234%", "99999999999", "½"]
        {
            let error = bad.parse::<AtOnce>().expect_err(bad);
            assert!(error.contains("N%"), "{error}");
        }
    }
}
