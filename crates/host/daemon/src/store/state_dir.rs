//! The state directory: made for its owner alone, locked by one daemon, with the name under which that
//! daemon's containers stand in the kernel.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use pinfold_sys::{boot, files, paths, peer, shared, whereabouts};

use crate::core::clock::Moment;

/// The locked state directory. The lock lasts as long as the value, and ends with the process.
#[derive(Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
    instance: String,
    rebooted: bool,
    _lock: File,
}

impl StateDir {
    /// Makes the directory if it is missing, and locks it for a daemon that listens on `socket`.
    pub(crate) fn open(path: &Path, socket: &Path) -> anyhow::Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.with_context(|| {
            format!("failed to make the state directory {} (PINFOLD_STATE_DIR names another)", path.display())
        })?;
        let path = &trusted(path)?;
        let host = shared::is_shared(path).then(peer::host_name);
        let lock = lock_for(host.as_deref(), path, socket, LEFT_WITHIN)?;
        let rebooted = is_of_another_boot(path);
        let instance = instance(path, rebooted)?;
        Ok(Self { path: path.to_owned(), instance, rebooted, _lock: lock })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The name of this daemon's groups below `pinfold` in the kernel, the same at each start.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// Whether the host was restarted since the last daemon on this directory started: nothing of what it ran is left,
    /// and a process of the same number is another one, though it may have started as many ticks after its boot.
    pub(crate) fn is_of_another_boot(&self) -> bool {
        self.rebooted
    }
}

/// Locks the directory. Where other hosts may have it, too (`host`: what this one is called), it is noted as this host's
/// then: locks need not hold across hosts, and each would take the jobs of the other for those of an earlier boot.
///
/// # Errors
/// It is another host's, or another daemon has it; then no note is changed.
fn lock_for(host: Option<&str>, state: &Path, socket: &Path, within: Duration) -> anyhow::Result<File> {
    let check = || host.map_or(Ok(()), |host| is_of_this_host(state, host));
    check()?;
    let lock = lock(state, socket, within)?;
    // Another may have had it meanwhile.
    check()?;
    if let Some(host) = host {
        let written = match shared::whose(state) {
            Some(before) if before == host => Ok(()),
            // This host was renamed.
            Some(_) => write_whole(&shared::note(state), &format!("{host}\n")),
            None => shared::claim(state, host),
        };
        if let Err(error) = written {
            tracing::warn!(state = %state.display(), %error, "other hosts will not notice whose this directory is");
        }
    }
    // Where locks do not hold across hosts, the first one that is noted has it.
    check()?;
    Ok(lock)
}

/// Looks whose the directory is. One that is renamed as it starts stays this host.
fn is_of_this_host(state: &Path, host: &str) -> anyhow::Result<()> {
    if shared::may_be_of(state, paths::DATABASE, host) || shared::is_of_this_boot(state) {
        return Ok(());
    }
    let (at, note) = (state.display(), shared::note(state));
    let note = note.display();
    match shared::whose(state) {
        Some(before) => bail!(
            "the state directory {at} is that of the host {before}, and this is {host}: name another by --state-dir or \
             PINFOLD_STATE_DIR; if this host was called {before}, remove {note}"
        ),
        None => bail!(
            "the state directory {at} was changed since this host came up, and not by this host: name another by \
             --state-dir or PINFOLD_STATE_DIR; if no other host uses it, write {host} into {note}"
        ),
    }
}

/// Whether another boot is noted in the state directory than this one. A directory without a note, or a kernel that has
/// no name for a boot, is taken for the same; a note that is not whole is one that a power cut interrupted.
fn is_of_another_boot(state: &Path) -> bool {
    boot::id().zip(noted(&state.join(boot::NOTE))).is_some_and(|(now, before)| before != now)
}

/// What an earlier daemon noted in a small file; `None`: nothing that can be read, which is told of.
fn noted(path: &Path) -> Option<String> {
    match files::read_regular(path) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).trim().to_owned()),
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                let path = path.display();
                tracing::warn!(%path, %error, "what the daemon before this one noted cannot be read");
            }
            None
        }
    }
}

/// Notes this boot: what ran in another one was dealt with.
pub(crate) fn note_boot(state: &Path) {
    let Some(now) = boot::id() else { return };
    let path = state.join(boot::NOTE);
    if noted(&path).is_some_and(|before| before == now) {
        return;
    }
    if let Err(error) = write_whole(&path, &format!("{now}\n")) {
        tracing::warn!(path = %path.display(), %error, "a restart of the host will not be noticed");
    }
}

/// The moment that an earlier daemon noted on this boot or another, by its clock.
pub(crate) fn noted_clock(state: &Path) -> Option<Moment> {
    let text = noted(&state.join("clock"))?;
    let (us, monotonic_us) = text.split_once(' ')?;
    Some(Moment { us: us.parse().ok()?, monotonic_us: monotonic_us.parse().ok()? })
}

/// Notes a moment by the clock of this daemon: by it are all times that it writes from now on, and those that it found and
/// put right.
pub(crate) fn note_clock(state: &Path, Moment { us, monotonic_us }: Moment) {
    let path = state.join("clock");
    if let Err(error) = write_whole(&path, &format!("{us} {monotonic_us}\n")) {
        tracing::warn!(path = %path.display(), %error, "timeouts may count time in which the host slept");
    }
}

/// When the guard of an earlier daemon thawed what that had frozen, by the daemon's clock.
pub(crate) fn noted_thaw(state: &Path) -> Option<u64> {
    noted(&state.join("thawed"))?.parse().ok()
}

/// A guard notes when it thawed what its daemon had frozen.
pub(crate) fn note_thaw(state: &Path, at_us: u64) {
    // Without room for it, the jobs count as frozen until the next daemon comes.
    let _ = write_whole(&state.join("thawed"), &format!("{at_us}\n"));
}

/// That was heeded.
pub(crate) fn forget_thaw(state: &Path) {
    let _ = std::fs::remove_file(state.join("thawed"));
}

/// Writes a small file so that a power cut leaves it as it was or as it is to be.
pub(crate) fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = files::open_in_place(OpenOptions::new().write(true).create(true).truncate(true), &beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

/// The directory with links followed, if nobody but this user (and root) can put files of theirs into it, or another
/// directory in its place: what lies there is written to by name, and believed.
fn trusted(path: &Path) -> anyhow::Result<PathBuf> {
    let looked = || format!("failed to look at {}", path.display());
    let path = path.canonicalize().with_context(looked)?;
    let found = path.symlink_metadata().with_context(looked)?;
    let why = match () {
        () if found.mode() & 0o022 != 0 => Some("is open to others"),
        () if found.uid() != peer::own_uid() => Some("belongs to someone else"),
        () => None,
    };
    let above = || path.parent().map(files::exchangeable).transpose().map(Option::flatten);
    let wrong = why.map_or_else(above, |why| Ok(Some((path.clone(), why)))).with_context(looked)?;
    if let Some((at, why)) = wrong {
        bail!(
            "the state directory {} cannot be trusted: {} {why}; name another by --state-dir",
            path.display(),
            at.display()
        );
    }
    Ok(path)
}

/// How long the lock of a daemon that is dead, or of its guard, may be in the way.
const LEFT_WITHIN: Duration = Duration::from_secs(30);

/// What the lock's file says while a guard has it, before its process number.
const GUARD: &str = "guard";

/// The pause between two tries of a guard to get the lock.
const GUARD_PAUSE: Duration = Duration::from_millis(200);

/// The lock for the guard of a dead daemon. A daemon that comes meanwhile waits: what it freezes would be thawed by the
/// guard otherwise. A daemon that has the lock already may end before it has found its jobs again, so the guard waits for
/// it for as long as `within`.
///
/// # Errors
/// `WouldBlock`: another daemon has it and keeps it. Otherwise when there is no such file, or it cannot be opened.
pub(crate) fn lock_for_guard(state: &Path, within: Duration) -> io::Result<File> {
    let mut file =
        files::open_in_place(OpenOptions::new().read(true).write(true), &whereabouts::lock(state))?;
    let deadline = Instant::now() + within;
    while let Err(error) = file.try_lock() {
        match error {
            TryLockError::WouldBlock if Instant::now() < deadline => std::thread::sleep(GUARD_PAUSE),
            error => return Err(error.into()),
        }
    }
    sign(&mut file, format!("{GUARD} {}\n", std::process::id()).as_bytes());
    Ok(file)
}

/// Writes which process has the lock, for people and for a daemon that waits. A full disk is no error here.
fn sign(file: &mut File, owner: &[u8]) {
    let written = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(owner));
    // Cut after that, so that there is always an owner to read.
    let length = u64::try_from(owner.len()).unwrap_or(u64::MAX);
    let _ = written.and_then(|()| file.set_len(length));
}

/// The daemon that has the lock listens on another socket from now on. A lock that is another's by now stays as it is.
pub(crate) fn note_socket(state: &Path, socket: &Path) {
    let (path, own) = (whereabouts::lock(state), std::process::id());
    let mut text = String::new();
    let noted =
        files::open_in_place(OpenOptions::new().read(true).write(true), &path).and_then(|mut file| {
            file.read_to_string(&mut text)?;
            if text.lines().next() == Some(&*own.to_string()) {
                sign(&mut file, &whereabouts::signature(own, socket));
            }
            Ok(())
        });
    if let Err(error) = noted {
        tracing::warn!(%error, "commands elsewhere do not find the socket that was made anew");
    }
}

fn lock(state: &Path, socket: &Path, within: Duration) -> anyhow::Result<File> {
    let path = whereabouts::lock(state);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let open = files::open_in_place(&mut options, &path);
    let mut file = open.with_context(|| format!("failed to open {}", path.display()))?;
    let deadline = Instant::now() + within;
    while file.try_lock().is_err() {
        let mut text = Vec::new();
        let _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut text));
        let owner = String::from_utf8_lossy(&text);
        // Behind the first line is its socket, or what is left of a longer owner.
        let owner = owner.lines().next().unwrap_or_default().trim();
        let guard = owner.strip_prefix(GUARD).map(str::trim);
        // A daemon that ended while it forked its guard leaves the lock with the guard for a moment; and a guard has it
        // while it thaws jobs. On a full disk nobody could sign.
        let dead = guard.is_some() || owner.is_empty() || !Path::new("/proc").join(owner).exists();
        if !dead || Instant::now() >= deadline {
            let listens = whereabouts::listens(state);
            let state = state.display();
            match guard {
                Some(guard) => bail!(
                    "the guard of a daemon that was killed (process {guard}) has {state} still: let it go on (SIGCONT), or \
                     end it and run `pinfold admin rescue`"
                ),
                None => {
                    let on =
                        listens.map(|socket| format!(", socket {}", socket.display())).unwrap_or_default();
                    let which =
                        if owner.is_empty() { String::new() } else { format!(" (process {owner}{on})") };
                    bail!(
                        "another pinfoldd{which} {} {state}; stop it, or name another by --state-dir",
                        pinfold_sys::paths::OCCUPIED
                    )
                }
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    sign(&mut file, &whereabouts::signature(std::process::id(), socket));
    Ok(file)
}

/// Reads the instance's name, or draws one. Without room on the disk it lasts for this run only. One that is there and
/// cannot be read, or is damaged, is an error: by another name this daemon would know none of the groups of its jobs, unless
/// the host was restarted, and none is left.
fn instance(state: &Path, rebooted: bool) -> anyhow::Result<String> {
    let path = state.join("instance");
    let fits =
        |name: &str| name.len() == 9 && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    match files::read_regular(&path).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()) {
        Ok(name) if fits(&name) => return Ok(name),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("failed to read {}", path.display()));
        }
        Ok(_) if !rebooted => bail!(
            "{} does not hold the name of this daemon's groups (`i` and eight hexadecimal digits): write the \
             name into it that the groups of its jobs have below `pinfold` in /sys/fs/cgroup, or remove it if none of \
             its jobs runs",
            path.display()
        ),
        Ok(_) => {
            tracing::warn!(path = %path.display(), "the name of the groups was damaged; another is drawn")
        }
        Err(_) => {}
    }
    let mut bytes = [0u8; 4];
    files::random(&mut bytes).context("failed to draw a name")?;
    let name = format!("i{:08x}", u32::from_le_bytes(bytes));
    if let Err(error) = write_whole(&path, &format!("{name}\n")) {
        tracing::warn!(path = %path.display(), %error, "the instance's name cannot be kept");
    }
    Ok(name)
}

#[cfg(test)]
mod tests;
