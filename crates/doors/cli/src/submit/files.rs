//! The files that a submitted job's output goes to: their names, and how they are opened.
//!
//! Absent here: the permission to write to a file (`output`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pinfold_proto::ExitCode;

use super::SubmitArgs;
use crate::output::{self, Named};
use pinfold_client::{Failure, outputs::expand};

/// Where a job's standard output and error go.
pub(crate) struct Files {
    pub out: File,
    pub err: File,
}

impl Files {
    /// With FIFOs opened that have a reader already. They stay open as long as the job is kept: the reader reads on
    /// when the job runs again.
    pub(crate) fn open_if_read(self) -> Self {
        Self { out: output::open_if_read(self.out), err: output::open_if_read(self.err) }
    }

    /// Copies of both, for another process.
    pub(crate) fn copies(&self) -> [Option<OwnedFd>; 2] {
        [&self.out, &self.err].map(|file| file.try_clone().ok().map(OwnedFd::from))
    }
}

/// The standard input of a detached job.
pub(crate) fn null() -> Option<OwnedFd> {
    File::open("/dev/null").ok().map(OwnedFd::from)
}

/// How a file is opened for a job's output.
pub(crate) type Open = fn(&Path, Named) -> std::io::Result<File>;

/// Names of output files with the placeholders `%A`, `%a`, `%j` and `%%`.
pub(crate) struct Names {
    pub out: (PathBuf, Named),
    pub err: (PathBuf, Named),
}

impl Names {
    /// The names for a job that is no member of an array.
    pub(crate) fn of_one(args: &SubmitArgs) -> Result<Self, Failure> {
        let has_no_index =
            |name: &Path| expand(name.as_os_str(), 0, 0, 0) == expand(name.as_os_str(), 0, 1, 0);
        let why = "%a stands for the index in an array, and this is none; %j for the job's number";
        Self::given(args, "pinfold-%j", has_no_index, why)
    }

    /// The names that the options give, or by a rule.
    fn given(
        args: &SubmitArgs,
        rule: &str,
        fits: impl Fn(&Path) -> bool,
        why_not: &str,
    ) -> Result<Self, Failure> {
        let name = |option: &str, given: &Option<PathBuf>, ending: &str| match given {
            None => Ok((PathBuf::from(format!("{rule}.{ending}")), Named::ByRule)),
            Some(path) if fits(path) => Ok((path.clone(), Named::ByUser)),
            Some(path) => {
                Err(Failure::new(ExitCode::Usage, format!("{option} {}: {why_not}", path.display())))
            }
        };
        Ok(Self { out: name("--output", &args.output, "out")?, err: name("--error", &args.error, "err")? })
    }

    /// The names with the numbers of this job.
    pub(crate) fn of_job(&self, array: u64, index: u32, job: u64) -> Self {
        let name =
            |(pattern, named): &(PathBuf, Named)| (expand(pattern.as_os_str(), array, index, job), *named);
        Self { out: name(&self.out), err: name(&self.err) }
    }

    /// Opens the files for a job's standard output and error.
    pub(crate) fn open(
        &self,
        open: impl Fn(&Path, Named) -> std::io::Result<File>,
    ) -> Result<Files, Failure> {
        let one = |(path, named): &(PathBuf, Named)| {
            open(path, *named).map_err(|error| cannot_be_opened(path, &error))
        };
        let out = one(&self.out)?;
        // A file named for both streams is opened once, for both share a single position.
        let err = if self.out.0 == self.err.0 { None } else { Some(one(&self.err)?) };
        if let Some(err) = err.filter(|err| !is_same(&out, err)) {
            return Ok(Files { out, err });
        }
        let shared = out.try_clone();
        let err = shared.map_err(|error| Failure::doing("failed to share the output file", &error))?;
        Ok(Files { out, err })
    }

    /// Opens the file for a job's standard error once more, to append.
    pub(crate) fn open_error(&self) -> std::io::Result<File> {
        output::append_for_job(&self.err.0, self.err.1)
    }

    /// The names for the members of an array.
    pub(crate) fn of_array(args: &SubmitArgs) -> Result<Self, Failure> {
        // An existing device takes all members' output, if its name is known beforehand.
        let fits = |name: &Path| {
            tells_apart(name.as_os_str()) || name.starts_with("/dev") && is_shared(name.as_os_str())
        };
        let why = "all members of the array would write to this one file; put %a, which stands for the index, into its name";
        Self::given(args, "pinfold-%A_%a", fits, why)
    }

    /// The files that all members of an array share, by their names. They are opened now: a stream of this process
    /// (/dev/stdout) differs once the members start, and no member may remove the output of another.
    pub(crate) fn open_shared(&self, open: Open) -> Result<BTreeMap<PathBuf, File>, Failure> {
        let shared = [&self.out, &self.err].into_iter().filter(|(pattern, _)| is_shared(pattern.as_os_str()));
        let mut opened = BTreeMap::new();
        for (pattern, named) in shared {
            let path = expand(pattern.as_os_str(), 0, 0, 0);
            if let Entry::Vacant(vacant) = opened.entry(path) {
                let file =
                    open(vacant.key(), *named).map_err(|error| cannot_be_opened(vacant.key(), &error))?;
                vacant.insert(file);
            }
        }
        Ok(opened)
    }
}

fn cannot_be_opened(path: &Path, error: &std::io::Error) -> Failure {
    Failure::doing(format!("failed to open {} for the job's output", path.display()), error)
}

/// Whether two names lead to the same regular file.
fn is_same(one: &File, other: &File) -> bool {
    let of = |file: &File| file.metadata().ok().filter(|found| found.is_file());
    of(one).zip(of(other)).is_some_and(|(one, other)| (one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// Whether the name differs for each member.
fn tells_apart(pattern: &OsStr) -> bool {
    expand(pattern, 0, 0, 0) != expand(pattern, 0, 1, 1)
}

/// Whether the name is the same for all members and all arrays.
fn is_shared(pattern: &OsStr) -> bool {
    expand(pattern, 0, 0, 0) == expand(pattern, 1, 1, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_output_files() {
        let check = |pattern: &str, want: &str, apart: bool| {
            assert_eq!(expand(OsStr::new(pattern), 12, 3, 15), Path::new(want), "{pattern}");
            assert_eq!(tells_apart(OsStr::new(pattern)), apart, "{pattern}");
            assert_eq!(is_shared(OsStr::new(pattern)), !apart && !pattern.contains("%A"), "{pattern}");
        };
        check("pinfold-%A_%a.out", "pinfold-12_3.out", true);
        check("%j.log", "15.log", true);
        check("logs/%A/%a", "logs/12/3", true);
        check("100%%-%a%", "100%-3%", true);
        check("%A.out", "12.out", false);
        check("%%a", "%a", false);
        check("plain", "plain", false);
        check("%x%", "%x%", false);
    }
}
