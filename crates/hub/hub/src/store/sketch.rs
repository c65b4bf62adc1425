//! Distributions of figures, small and mergeable: counts in ranges of a fixed width on a logarithmic scale. A sketch's
//! quantile is within [`ERROR_PART`] of the figure of that rank; the largest figure is exact. Absent here: the
//! database.

mod counts;

use std::collections::BTreeMap;

use self::counts::Counts;
use super::Spread;

/// Ranges in a doubling: a range reaches from 2.2 % below its middle to 2.2 % above.
const PER_DOUBLING: f64 = 16.0;

/// The largest error of a quantile, as a part of the exact figure.
pub const ERROR_PART: f64 = 0.022;

/// The most ranges accepted in a sketch, and the most bytes in a set of hosts.
const RANGES_MAX: u64 = 2_000;
const HOSTS_MAX: usize = 8_192;

/// The distribution of a figure. Values below 1 count as 0: the caller chooses units in which these are negligible.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Sketch {
    counts: BTreeMap<u32, u64>,
    most: f64,
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and what is below 1 went before"
)]
fn range_of(value: f64) -> u32 {
    if value >= 1.0 { 1 + (value.log2() * PER_DOUBLING) as u32 } else { 0 }
}

/// The middle of a range.
fn middle(range: u32) -> f64 {
    if range == 0 { 0.0 } else { ((f64::from(range) - 0.5) / PER_DOUBLING).exp2() }
}

impl Sketch {
    pub(super) fn add(&mut self, value: f64) {
        *self.counts.entry(range_of(value)).or_default() += 1;
        self.most = self.most.max(value);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        other.counts.iter().for_each(|(range, count)| *self.counts.entry(*range).or_default() += count);
        self.most = self.most.max(other.most);
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.most.to_le_bytes());
        number(self.counts.len() as u64, out);
        let mut before = 0;
        for (range, count) in &self.counts {
            number(u64::from(range - before), out);
            number(*count, out);
            before = *range;
        }
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let mut counts = BTreeMap::new();
        let most = each_range(from, |range, count| {
            counts.insert(range, count);
        })?;
        Some(Self { counts, most })
    }
}

/// Reads a sketch, range by range; returns the largest figure.
fn each_range(from: &mut &[u8], mut see: impl FnMut(u32, u64)) -> Option<f64> {
    let (most, rest) = from.split_first_chunk::<8>()?;
    *from = rest;
    let mut range = 0u32;
    for _ in 0..read_number(from).filter(|ranges| *ranges <= RANGES_MAX)? {
        range = range.checked_add(u32::try_from(read_number(from)?).ok()?)?;
        if u64::from(range) > RANGES_MAX {
            return None;
        }
        see(range, read_number(from)?);
    }
    Some(f64::from_le_bytes(*most))
}

/// Many sketches added up.
#[derive(Debug, Clone, Default)]
pub(super) struct Total {
    counts: Counts,
    most: f64,
}

impl PartialEq for Total {
    fn eq(&self, other: &Self) -> bool {
        self.most.total_cmp(&other.most).is_eq() && self.counts.pairs().eq(other.counts.pairs())
    }
}

impl Total {
    fn read(&mut self, from: &mut &[u8]) -> Option<()> {
        let most = each_range(from, |range, count| self.counts.add(range, count))?;
        self.most = self.most.max(most);
        Some(())
    }

    /// Quantiles in units of `unit`; `None`: no figures.
    pub(super) fn spread(&self, unit: f64) -> Option<Spread> {
        let all = self.counts.pairs().map(|(_, count)| u128::from(count)).sum::<u128>();
        let last = all.checked_sub(1)?;
        let at = |percent: u128| {
            let rank = (last * percent).div_ceil(100);
            let mut passed = 0u128;
            let found = self.counts.pairs().find(|(_, count)| {
                passed += u128::from(*count);
                passed > rank
            });
            found.map_or(self.most, |(range, _)| middle(range).min(self.most)) * unit
        };
        Some(Spread { p50: at(50), p90: at(90), p95: at(95), p99: at(99), most: self.most * unit })
    }
}

/// Spreads of many rows added up.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Totals {
    pub(super) hosts: Hosts,
    pub(super) wall_ms: Total,
    pub(super) peak_bytes: Total,
    pub(super) claim_bytes: Total,
}

impl Totals {
    /// Adds a packed row; `None`: the row is damaged or of another version.
    pub(super) fn add(&mut self, mut from: &[u8]) -> Option<()> {
        let from = &mut from;
        self.hosts.merge(hosts_of(from)?);
        self.wall_ms.read(from)?;
        self.peak_bytes.read(from)?;
        self.claim_bytes.read(from)?;
        from.is_empty().then_some(())
    }

    /// Its memory in bytes.
    pub(super) const fn bytes(&self) -> usize {
        let ranges = self.wall_ms.counts.bytes() + self.peak_bytes.counts.bytes();
        ranges + self.claim_bytes.counts.bytes() + self.hosts.0.len()
    }
}

/// The set of hosts at the beginning of a row.
fn hosts_of<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = read_number(from).and_then(|length| usize::try_from(length).ok())?;
    if length > HOSTS_MAX || length > from.len() {
        return None;
    }
    let (hosts, rest) = from.split_at(length);
    *from = rest;
    Some(hosts)
}

/// Writes a number in the fewest bytes, seven bits each.
fn number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

fn read_number(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A set of hosts by number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Hosts(Vec<u8>);

impl Hosts {
    /// A host beyond the 65,536th is not counted.
    pub(super) fn add(&mut self, host: i64) {
        let Ok(host) = usize::try_from(host) else { return };
        if host / 8 >= HOSTS_MAX {
            return;
        }
        if self.0.len() <= host / 8 {
            self.0.resize(host / 8 + 1, 0);
        }
        self.0[host / 8] |= 1 << (host % 8);
    }

    fn merge(&mut self, other: &[u8]) {
        if self.0.len() < other.len() {
            self.0.resize(other.len(), 0);
        }
        self.0.iter_mut().zip(other).for_each(|(own, other)| *own |= other);
    }

    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|byte| u64::from(byte.count_ones())).sum()
    }
}

/// Distributions of jobs' figures, and the jobs' hosts.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Spreads {
    pub(super) hosts: Hosts,
    /// In milliseconds.
    pub(super) wall_ms: Sketch,
    /// In bytes.
    pub(super) peak_bytes: Sketch,
    /// In bytes, of jobs with a request.
    pub(super) claim_bytes: Sketch,
}

impl Spreads {
    pub(super) fn merge(&mut self, other: &Self) {
        self.hosts.merge(&other.hosts.0);
        self.wall_ms.merge(&other.wall_ms);
        self.peak_bytes.merge(&other.peak_bytes);
        self.claim_bytes.merge(&other.claim_bytes);
    }

    pub(super) fn packed(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        number(self.hosts.0.len() as u64, &mut out);
        out.extend_from_slice(&self.hosts.0);
        [&self.wall_ms, &self.peak_bytes, &self.claim_bytes].iter().for_each(|sketch| sketch.write(&mut out));
        out
    }

    /// Unpacks a row; `None`: the row is damaged or of another version.
    pub(super) fn unpack(mut from: &[u8]) -> Option<Self> {
        let from = &mut from;
        let hosts = hosts_of(from)?;
        let read = Self {
            hosts: Hosts(hosts.to_vec()),
            wall_ms: Sketch::read(from)?,
            peak_bytes: Sketch::read(from)?,
            claim_bytes: Sketch::read(from)?,
        };
        from.is_empty().then_some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch(values: impl Iterator<Item = f64>) -> Sketch {
        let mut sketch = Sketch::default();
        values.for_each(|value| sketch.add(value));
        sketch
    }

    fn spread(sketch: &Sketch, unit: f64) -> Option<Spread> {
        let mut totals = Totals::default();
        let spreads = Spreads { wall_ms: sketch.clone(), ..Spreads::default() };
        totals.add(&spreads.packed()).unwrap();
        totals.wall_ms.spread(unit)
    }

    #[test]
    fn quantiles_are_near_and_the_largest_is_exact() {
        assert_eq!(spread(&Sketch::default(), 1.0), None);
        for scale in [1.0, 37.0, 1e9] {
            let spread = spread(&sketch((1..=1_000).map(|value| f64::from(value) * scale)), 0.5).unwrap();
            for (found, exact) in [(spread.p50, 501.0), (spread.p90, 901.0), (spread.p99, 991.0)] {
                let off = (found / (exact * scale * 0.5) - 1.0).abs();
                assert!(off <= ERROR_PART, "{found} for {exact} times {scale}");
            }
            assert!((spread.most - 500.0 * scale).abs() < 1e-6 * scale);
        }
        let zeros = spread(&sketch([0.0, 0.2, 0.0].into_iter()), 1.0).unwrap();
        assert!(zeros.p50 == 0.0 && zeros.most > 0.1);
    }

    #[test]
    fn parts_that_are_added_up_are_the_whole() {
        let values = || (0..300).map(|value| f64::from(value * value));
        let (mut one, other) = (sketch(values().take(100)), sketch(values().skip(100)));
        let packed = |sketch: &Sketch| Spreads { peak_bytes: sketch.clone(), ..Spreads::default() }.packed();
        let (mut parts, mut whole) = (Totals::default(), Totals::default());
        assert_eq!(parts.add(&packed(&one)).and_then(|()| parts.add(&packed(&other))), Some(()));
        whole.add(&packed(&sketch(values()))).unwrap();
        assert_eq!(parts, whole);
        one.merge(&other);
        assert_eq!(one, sketch(values()));
    }

    #[test]
    fn what_is_packed_is_read_and_nothing_else() {
        let mut spreads = Spreads { wall_ms: sketch((1..90).map(f64::from)), ..Spreads::default() };
        [3, 9, 9, 70, -1, i64::MAX].into_iter().for_each(|host| spreads.hosts.add(host));
        spreads.peak_bytes.add(1e15);
        assert_eq!(spreads.hosts.count(), 3);
        let packed = spreads.packed();
        assert_eq!(Spreads::unpack(&packed).as_ref(), Some(&spreads));
        for end in 0..packed.len() {
            assert_eq!(Spreads::unpack(&packed[..end]), None, "{end} bytes");
            assert_eq!(Totals::default().add(&packed[..end]), None, "{end} bytes");
        }
        assert_eq!(Spreads::unpack(&[&packed[..], b"x"].concat()), None);
        assert_eq!(Spreads::unpack(&[0xff; 64]), None);
    }
}
