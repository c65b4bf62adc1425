//! Text to data for the files of control groups. Hostile text gives `None` or nothing, never a panic.

/// The contents of `cgroup.events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Events {
    /// Processes that have not ended are in the group or below it.
    pub populated: bool,
    /// Every process in it and below has stopped; kernels before 5.2 do not report it.
    pub frozen: bool,
}

/// Reads `cgroup.events`.
#[must_use]
pub fn parse_events(text: &str) -> Option<Events> {
    Some(Events {
        populated: keyed(text, "populated")? != 0,
        frozen: keyed(text, "frozen").unwrap_or(0) != 0,
    })
}

/// The number that follows `key` in a file of `key number` lines.
#[must_use]
pub fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?.strip_prefix(' ')?;
        rest.trim().parse().ok()
    })
}

/// A single number, or `max` for the largest.
#[must_use]
pub fn parse_limit(text: &str) -> Option<u64> {
    match text.trim() {
        "max" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The members listed in `cgroup.procs`, ascending and each once (the first generation may repeat some). A member
/// outside our process namespace shows as 0 and is left out: there is no way to name it.
#[must_use]
pub fn parse_pids(text: &str) -> Option<Vec<u32>> {
    let mut pids = Vec::new();
    for word in text.split_ascii_whitespace() {
        match word.parse::<u32>().ok()? {
            0 => {}
            pid => pids.push(pid),
        }
    }
    pids.sort_unstable();
    pids.dedup();
    Some(pids)
}

/// Bytes read and written over all devices, from `io.stat`.
#[must_use]
pub fn parse_io_stat(text: &str) -> Option<(u64, u64)> {
    let (mut read, mut written) = (0u64, 0u64);
    for word in text.split_ascii_whitespace() {
        match word.split_once('=') {
            Some(("rbytes", value)) => read = read.saturating_add(value.parse().ok()?),
            Some(("wbytes", value)) => written = written.saturating_add(value.parse().ok()?),
            _ => {}
        }
    }
    Some((read, written))
}

/// The memory of these kinds on each NUMA node, from `memory.numa_stat`: node and sum, ascending. The numbers are bytes in
/// the second generation (`anon N0=4096 N1=0`) and pages in the first (`hierarchical_anon=1 N0=1 N1=0`). `None`: the text
/// has none of these kinds.
#[must_use]
pub fn parse_numa_stat(text: &str, kinds: &[&str]) -> Option<Vec<(u32, u64)>> {
    let mut nodes: std::collections::BTreeMap<u32, u64> = std::collections::BTreeMap::new();
    let mut found = false;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let kind = words.next().unwrap_or_default();
        let kind = kind.split_once('=').map_or(kind, |(kind, _)| kind);
        if !kinds.contains(&kind) {
            continue;
        }
        found = true;
        for word in words {
            let (node, value) = word.strip_prefix('N')?.split_once('=')?;
            let sum = nodes.entry(node.parse().ok()?).or_default();
            *sum = sum.saturating_add(value.parse().ok()?);
        }
    }
    found.then(|| nodes.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn events_need_the_populated_line() {
        let both = Events { populated: true, frozen: true };
        assert_eq!(parse_events("populated 1\nfrozen 1\n"), Some(both));
        assert_eq!(parse_events("populated 0\n"), Some(Events { populated: false, frozen: false }));
        assert_eq!(parse_events("frozen 1\n"), None);
    }

    #[test]
    fn a_key_is_matched_whole() {
        let text = "total_rss_huge 7\ntotal_rss 4096\n";
        assert_eq!(keyed(text, "total_rss"), Some(4096));
        assert_eq!(keyed(text, "rss"), None);
        assert_eq!(keyed("anon x\n", "anon"), None);
    }

    #[test]
    fn limits() {
        assert_eq!(parse_limit("max\n"), Some(u64::MAX));
        assert_eq!(parse_limit("4096\n"), Some(4096));
        assert_eq!(parse_limit("-1\n"), None);
        assert_eq!(parse_limit(""), None);
    }

    #[test]
    fn members_are_sorted_and_nameless_ones_left_out() {
        assert_eq!(parse_pids("12\n3\n0\n12\n"), Some(vec![3, 12]));
        assert_eq!(parse_pids(""), Some(vec![]));
        assert_eq!(parse_pids("x"), None);
    }

    #[test]
    fn devices_are_summed() {
        let text =
            "254:0 rbytes=4096 wbytes=100 rios=1 wios=1 dbytes=0 dios=0\n8:0 rbytes=1 wbytes=2 rios=0\n";
        assert_eq!(parse_io_stat(text), Some((4097, 102)));
        assert_eq!(parse_io_stat(""), Some((0, 0)));
        assert_eq!(parse_io_stat("8:0 rbytes=x"), None);
    }

    #[test]
    fn memory_by_node_is_parsed() {
        let second = "anon N0=4096 N1=8192\nfile N0=1 N1=1\nshmem N0=0 N1=100\nanon_thp N0=7 N1=7\n";
        assert_eq!(parse_numa_stat(second, &["anon", "shmem"]), Some(vec![(0, 4096), (1, 8292)]));
        let first =
            "total=9 N0=9\nanon=1 N0=1 N2=0\nhierarchical_total=9 N0=9\nhierarchical_anon=3 N0=1 N2=2\n";
        assert_eq!(parse_numa_stat(first, &["hierarchical_anon"]), Some(vec![(0, 1), (2, 2)]));
        assert_eq!(parse_numa_stat(first, &["shmem"]), None);
        assert_eq!(parse_numa_stat("anon N0=x\n", &["anon"]), None);
        assert_eq!(parse_numa_stat("anon 0=1\n", &["anon"]), None);
    }

    proptest! {
        #[test]
        fn hostile_text_never_panics(text in any::<String>(), key in "[a-z]{0,4}") {
            let _ = parse_events(&text);
            let _ = keyed(&text, &key);
            let _ = parse_limit(&text);
            let _ = parse_pids(&text);
            let _ = parse_io_stat(&text);
            let _ = parse_numa_stat(&text, &["anon", &key]);
        }
    }
}
