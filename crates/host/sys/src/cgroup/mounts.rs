//! The mounts of control group hierarchies, and this process's group in each: parsers for `/proc/self/mountinfo` and
//! `/proc/self/cgroup`. Absent here: files.

/// The two generations of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// A hierarchy for each controller, or for a few.
    V1,
    /// The unified hierarchy.
    V2,
}

/// A mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// First or second generation.
    pub generation: Generation,
    /// The mount point.
    pub point: String,
    /// The group at the top of the mount; `/` unless in a container.
    pub root: String,
    /// The controllers of a first-generation hierarchy; the second generation lists them in its own file.
    pub controllers: Vec<String>,
    /// Mounted for reading only.
    pub read_only: bool,
}

/// Reads the mounted hierarchies from `/proc/self/mountinfo`, in the order in which they were mounted.
#[must_use]
pub fn parse_mounts(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_mount).collect()
}

fn parse_mount(line: &str) -> Option<Mount> {
    // "36 35 98:0 /root /point rw,noatime shared:1 - type source rw,options": optional fields end at the dash.
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, point, flags) = (unescape(left.next()?), unescape(left.next()?), left.next()?);
    let mut right = right.split(' ');
    let (kind, options) = (right.next()?, right.nth(1)?);
    let generation = match kind {
        "cgroup" => Generation::V1,
        "cgroup2" => Generation::V2,
        _ => return None,
    };
    let is_flag = |word: &&str| !matches!(*word, "rw" | "ro" | "noprefix" | "clone_children" | "xattr");
    let controllers = match generation {
        Generation::V1 => options.split(',').filter(is_flag).map(str::to_owned).collect(),
        Generation::V2 => Vec::new(),
    };
    let read_only = flags.split(',').chain(options.split(',')).any(|word| word == "ro");
    Some(Mount { generation, point, root, controllers, read_only })
}

/// The group that `/proc/self/cgroup` names for a hierarchy: for the second generation the line `0::`, otherwise
/// the line that lists `controller`.
#[must_use]
pub fn own_group(text: &str, generation: Generation, controller: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let ours = match generation {
            Generation::V2 => number == "0" && controllers.is_empty(),
            Generation::V1 => controllers.split(',').any(|word| word == controller),
        };
        ours.then(|| path.to_owned())
    })
}

/// Undoes the octal escapes (`\040` for a blank) of mountinfo.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = |digit: u8| (b'0'..=b'7').contains(&digit).then(|| u32::from(digit - b'0'));
        let escaped = match (first, tail) {
            (b'\\', [a, b, c, ..]) => octal(*a)
                .zip(octal(*b))
                .zip(octal(*c))
                .and_then(|((a, b), c)| u8::try_from(a * 64 + b * 8 + c).ok()),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &tail[3..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOUNTS: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd\n\
        41 31 0:38 /box /sys/fs/cgroup/my\\040tree ro,relatime - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn hierarchies_are_told_from_other_mounts() {
        let mounts = parse_mounts(MOUNTS);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[0].controllers, ["cpu", "cpuacct"]);
        assert_eq!(mounts[1].controllers, ["name=systemd"]);
        let tree = &mounts[2];
        assert_eq!((tree.generation, tree.point.as_str()), (Generation::V2, "/sys/fs/cgroup/my tree"));
        assert_eq!((tree.root.as_str(), tree.read_only, mounts[0].read_only), ("/box", true, false));
    }

    #[test]
    fn own_groups() {
        let text = "4:memory:/a:b\n2:cpu,cpuacct:/\n1:name=systemd:/\n0::/user.slice\n";
        assert_eq!(own_group(text, Generation::V1, "memory").as_deref(), Some("/a:b"));
        assert_eq!(own_group(text, Generation::V1, "cpuacct").as_deref(), Some("/"));
        assert_eq!(own_group(text, Generation::V2, "").as_deref(), Some("/user.slice"));
        assert_eq!(own_group(text, Generation::V1, "cpuset"), None);
    }

    #[test]
    fn only_whole_escapes_are_undone() {
        assert_eq!(unescape(r"a\040b\134c\04"), r"a b\c\04");
        assert_eq!(unescape(r"\777\"), r"\777\");
    }

    proptest! {
        #[test]
        fn hostile_text_never_panics(text in any::<String>(), near in "[0-9 /\\\\a-z:,-]{0,80}") {
            for text in [&text, &near] {
                let _ = parse_mounts(text);
                let _ = unescape(text);
                let _ = own_group(text, Generation::V1, "cpu");
                let _ = own_group(text, Generation::V2, "");
            }
        }
    }
}
