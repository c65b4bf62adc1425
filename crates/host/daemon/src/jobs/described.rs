//! What is asked for with processes that run already, and what these say of themselves.

use pinfold_proto::program::default_name;
use pinfold_proto::wire::{Adoptee, ErrorCode};
use pinfold_proto::{Adopted, JobSpec};
use pinfold_sys::aside::{self, Purpose};
use pinfold_sys::procfs::ProcessStat;

use crate::core::{Ctx, Refusal};

/// How much of a command line is kept, in words and in bytes of each.
const WORDS_MAX: usize = 64;
const WORD_MAX_BYTES: usize = 256;
/// So much of it is read: a process can have the kernel tell a longer one than there is memory.
const LINE_BYTES_MAX: usize = 64 << 10;

/// What is asked for, with what the processes say of themselves, and without what only a job has that pinfold starts. Says
/// as well whether the command line was read in time; else the program's name stands for it.
pub(crate) fn described(
    ctx: &Ctx,
    which: &Adoptee,
    mut spec: JobSpec,
    (found, owner): (&[ProcessStat], u32),
    in_place: bool,
) -> Result<(JobSpec, bool), Refusal> {
    let layout = spec.layout.as_ref();
    let not_for_these = [
        // A manager's hook hands its path on, before the command executes.
        ("a directory in memory (--tmp)", spec.tmp_bytes.is_some() && !in_place),
        ("a directory on a disk (--disk)", spec.disk_bytes.is_some()),
        ("a /tmp of its own (--private-tmp)", spec.private_tmp),
        ("a network of its own (--no-network)", spec.no_network),
        ("to be requeued (--requeue)", spec.requeue),
        ("to be begun anew after a checkpoint (--checkpoint)", spec.checkpoint.is_some()),
        ("to be part of an array", spec.array.is_some()),
        ("tasks (--ntasks and other options of layout)", layout.is_some_and(|one| !one.options.is_empty())),
        ("cores to itself (--isolated)", layout.is_some_and(|one| one.isolated)),
    ];
    if let Some((what, _)) = not_for_these.into_iter().find(|(_, asked)| *asked) {
        let text = format!(
            "processes that run already cannot be given {what}: that is for a job that pinfold starts"
        );
        return Err((ErrorCode::Usage, text));
    }
    let first = found[0].pid;
    let proc = ctx.proc.clone();
    // The process can hold that up; its short name says enough then.
    let words = aside::read_soon((Purpose::Beginnings, owner), move || proc.arguments(first, LINE_BYTES_MAX));
    let is_read = words.is_some();
    let words = words.and_then(|words| words.ok().flatten()).unwrap_or_default();
    let cut = |word: &str| word.chars().take(WORD_MAX_BYTES / 4).collect::<String>();
    // A manager's hook tells what its process will execute.
    let told = in_place.then(|| spec.command.join("\0")).filter(|told| !told.is_empty());
    let words = told.unwrap_or(words);
    spec.command = words.trim_end_matches('\0').split('\0').take(WORDS_MAX).map(cut).collect();
    if spec.command.iter().all(String::is_empty) {
        let name = ctx.proc.text(&format!("{first}/comm")).ok().flatten().unwrap_or_default();
        spec.command = vec![cut(name.trim())];
    }
    if spec.name.is_empty() {
        spec.name = default_name(&spec.command);
    }
    let directory = std::fs::read_link(format!("/proc/{first}/cwd"));
    spec.directory = directory.map(|path| cut(&path.to_string_lossy())).unwrap_or_default();
    spec.line = None;
    let cgroup = match which {
        Adoptee::Group(path) => Some(path.clone()),
        Adoptee::Process(_) => None,
    };
    let processes = found.iter().map(|stat| (stat.pid, stat.start_ticks)).collect();
    spec.adopted = Some(Adopted { cgroup, processes, ..Adopted::default() });
    Ok((spec, is_read))
}
