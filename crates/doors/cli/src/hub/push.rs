//! The pusher as a process: looks at the host every two seconds, and sends. A directory has a single pusher. It never
//! starts a daemon.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use pinfold_hubwire::bundle::SpoolFigures;
use pinfold_hubwire::courier::{Bearer, ClientError, Courier};
use pinfold_hubwire::disk::{Disk as _, RealDisk};
use pinfold_hubwire::push::{LONGEST_PAUSE, Pusher, Sent, Source as _, UplinkError};
use pinfold_hubwire::settings::Settings;
use pinfold_hubwire::spool::Spool;
use pinfold_profile::report::{date_here, plain, size};
use pinfold_proto::ExitCode;
use serde::{Deserialize, Serialize};

use super::learned::Learned;
use super::{JOINED, of_settings, push_dir, source, taken_push_dir};
use crate::print::{print_json, print_text, say};
use pinfold_client::{Dial, Failure};

/// How often it looks.
const EVERY: Duration = Duration::from_secs(2);

/// The state that `hub status` reads.
const SAID: &str = "pusher.json";

/// The pusher's knowledge of jobs.
const CURSOR: &str = "cursor.json";

/// The pusher's last words about itself.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Said {
    /// When, in Unix seconds.
    time_s: f64,
    /// When the hub last took something.
    reached_s: Option<f64>,
    /// Why it took nothing since.
    failed: Option<String>,
    /// Another fault.
    trouble: Option<String>,
    spool: SpoolFigures,
    /// Jobs' parts that were sent since it was started.
    sent: u64,
}

/// The time that a pusher tries to have its directory alone: `hub status` holds it for an instant.
const ALONE_WITHIN: Duration = Duration::from_secs(1);

/// How long `leave` waits for the pusher to end: an exchange takes a minute at most. A round may have several.
pub(super) const LEFT_WITHIN: Duration = Duration::from_secs(65);

/// The interval of the tries.
const TRIED_EVERY: Duration = Duration::from_millis(20);

/// The file that a pusher locks.
const LOCK: &str = "lock";

fn of_lock(dir: &Path, error: &io::Error) -> Failure {
    Failure::doing(format!("failed to open {}", dir.join(LOCK).display()), error)
}

/// The directory for this process alone, as long as the returned lock lives; `None`: another process has it.
fn alone(dir: &Path) -> Result<Option<File>, Failure> {
    RealDisk.list(dir).map_err(|error| of_lock(dir, &error))?;
    let file = File::options().create(true).truncate(false).write(true).open(dir.join(LOCK));
    let file = file.map_err(|error| of_lock(dir, &error))?;
    Ok(locked(&file, ALONE_WITHIN).then_some(file))
}

/// Locks the file within this time, and says whether that succeeded.
fn locked(file: &File, within: Duration) -> bool {
    let until = Instant::now() + within;
    loop {
        if file.try_lock().is_ok() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(TRIED_EVERY);
    }
}

/// The file that a pusher in this directory locks; `None`: there was none yet. It is not made here: it would be this
/// user's, and the pusher may be another's.
fn lock_of_pusher(dir: &Path) -> Result<Option<File>, Failure> {
    match File::open(dir.join(LOCK)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(of_lock(dir, &error)),
    }
}

fn is_running(dir: &Path) -> Result<bool, Failure> {
    Ok(lock_of_pusher(dir)?.is_some_and(|lock| lock.try_lock_shared().is_err()))
}

/// Waits until no pusher works in this directory. None does as long as the returned lock lives; `None`: there was no
/// pusher yet.
pub(super) fn ended(dir: &Path, within: Duration) -> Result<Option<File>, Failure> {
    let lock = lock_of_pusher(dir)?;
    if lock.as_ref().is_none_or(|lock| locked(lock, within)) {
        return Ok(lock);
    }
    let text = format!(
        "the pusher in {} has not ended yet: it does once the hub has answered, or does not in time. What it keeps is removed \
         by another `pinfold hub leave` then",
        dir.display()
    );
    Err(Failure::new(ExitCode::Failed, text))
}

/// Whether a pusher left anything here that [`remove_spool`] removes.
pub(super) fn left_something(dir: &Path) -> bool {
    [CURSOR, SAID].iter().any(|name| dir.join(name).exists())
}

fn settings(dir: &Path) -> Result<Option<Settings>, Failure> {
    Settings::load(&dir.join(JOINED)).map_err(of_settings)
}

/// `pinfold hub push`.
pub(super) fn push(dial: &Dial, spool_bytes: u64, once: bool) -> Result<(), Failure> {
    let dir = taken_push_dir()?;
    let none = "this host has joined no hub: `pinfold hub join URL --token TOKEN` does that";
    let first = settings(&dir)?.ok_or_else(|| Failure::new(ExitCode::Failed, none))?;
    let Some(_alone) = alone(&dir)? else {
        return Err(Failure::new(ExitCode::Refused, format!("another pusher works in {}", dir.display())));
    };
    let pusher = Pusher::open(RealDisk, &dir, spool_bytes, &pinfold_sys::boot::id().unwrap_or_default());
    let pusher = pusher.map_err(|error| Failure::doing("the pusher", &error))?;
    let client = first.courier();
    let mut round = Round {
        pusher,
        client,
        settings: first,
        said: Said::default(),
        begun: Instant::now(),
        known: None,
        learned: Learned::default(),
    };
    let mut daemon = source::Daemon::new(dial);
    loop {
        round.go(&mut daemon, &dir);
        if once {
            return round.finish(&mut daemon, &dir);
        }
        if !round.is_behind() {
            std::thread::sleep(EVERY);
        }
        match settings(&dir)? {
            None => return Ok(()),
            Some(now) if now != round.settings => {
                round.client = now.courier();
                round.pusher.meet();
                round.known = None;
                round.learned = Learned::default();
                round.settings = now;
            }
            Some(_) => {}
        }
    }
}

/// The inputs of a round.
struct Round {
    pusher: Pusher<RealDisk>,
    client: Courier<Bearer>,
    settings: Settings,
    said: Said,
    begun: Instant,
    /// The daemon's instance with the key that the hub knows.
    known: Option<String>,
    /// The hub's knowledge of other hosts, on its way to the daemon.
    learned: Learned,
}

impl Round {
    /// Looks at the host, and sends. A failed step is tried again in a later round: a disk that is full now need not
    /// stay so.
    fn go(&mut self, daemon: &mut source::Daemon<'_>, dir: &Path) {
        let failed = |error| Failure::doing("the pusher", &error).message;
        let missing = |error| Failure::doing("not all is in the spool", &error).message;
        let (now, now_us) = (self.begun.elapsed(), now_us());
        let mut trouble = match self.pusher.collect(daemon, now_us) {
            Ok(collected) => {
                let chance = chance(now_us);
                let told = self.pusher.tell(&mut self.client, collected.status, now_us, now, chance);
                let told = told.map(|refused| refused.iter().for_each(|error| self.note(error)));
                collected.trouble.map(missing).or(told.err().map(failed))
            }
            Err(error) => Some(missing(error)),
        };
        let asked = self.pusher.may_send(now);
        if asked {
            self.make_known(daemon);
            if let Some(words) = self.learned.pull(daemon, &mut self.client, now) {
                say(&plain(&words));
            }
        }
        match self.pusher.send(&mut self.client, now, chance(now_us)) {
            Ok(sent) => self.sent(&sent, asked && self.pusher.may_send(now), now_us),
            Err(error) => trouble = trouble.or(Some(failed(error))),
        }
        self.trouble(trouble);
        self.said.time_s = seconds(now_us);
        self.said.spool = self.pusher.figures();
        keep(dir, &self.said);
    }

    /// Notes the sent bundles; `reached`: the hub was asked, and answered.
    fn sent(&mut self, sent: &Sent, reached: bool, now_us: u64) {
        self.said.sent = self.said.sent.saturating_add(sent.new).saturating_add(sent.known);
        for why in &sent.refused {
            say(&format!("the hub refused a bundle for good, and it is put aside: {}", plain(why)));
        }
        match &sent.failed {
            Some(error) => self.note(error),
            None if reached => {
                self.said.reached_s = Some(seconds(now_us));
                self.said.failed = None;
            }
            None => {}
        }
    }

    /// Has the hub know the daemon's key, once for each daemon: another state directory has another key. Jobs are sent
    /// whether or not that works.
    fn make_known(&mut self, daemon: &mut source::Daemon<'_>) {
        let Ok(origin) = daemon.origin() else { return };
        if self.known.as_ref() == Some(&origin) {
            return;
        }
        // A voucher is for a single address.
        let made = |url: &str| {
            let failed = |failure: Failure| ClientError::Identity(failure.message);
            daemon.vouch(url).map(|voucher| serde_json::to_vec(&voucher).unwrap_or_default()).map_err(failed)
        };
        match self.client.post_made::<serde_json::Value>("/api/v1/key", made) {
            Ok(_) => self.known = Some(origin),
            Err(error @ ClientError::Refused { status: 400..500, .. }) => {
                say(&format!(
                    "users of this host cannot be vouched for at the hub: {}",
                    plain(&error.to_string())
                ));
                self.known = Some(origin);
            }
            Err(_) => {}
        }
    }

    /// Whether the next round has something to do at once.
    fn is_behind(&self) -> bool {
        self.said.trouble.is_none() && self.pusher.is_behind()
    }

    /// A new failure is reported once.
    fn note(&mut self, error: &UplinkError) {
        let words = plain(&error.to_string());
        if self.said.failed.as_ref() != Some(&words) {
            say(&format!("{words}; the spool keeps what is not sent, and it is tried again"));
        }
        self.said.failed = Some(words);
    }

    fn trouble(&mut self, words: Option<String>) {
        if let Some(new) = words.as_ref().filter(|_| self.said.trouble != words) {
            say(&plain(new));
        }
        self.said.trouble = words;
    }

    /// Goes on until all ended jobs are sent, or a failure.
    fn finish(&mut self, daemon: &mut source::Daemon<'_>, dir: &Path) -> Result<(), Failure> {
        loop {
            let wrong = self.said.failed.as_ref().or(self.said.trouble.as_ref());
            if let Some(wrong) = wrong {
                return Err(Failure::new(ExitCode::Failed, wrong));
            }
            if self.pusher.is_idle() {
                return Ok(());
            }
            self.go(daemon, dir);
        }
    }
}

/// A power cut may take its content, which is of no use after the cut.
fn keep(dir: &Path, said: &Said) {
    let (new, path) = (dir.join("pusher.json.new"), dir.join(SAID));
    let text = serde_json::to_vec(said).unwrap_or_default();
    let _ = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
}

/// A number that differs between hosts and times.
fn chance(now_us: u64) -> u32 {
    use std::hash::{BuildHasher as _, RandomState};
    let drawn = RandomState::new().hash_one(now_us);
    u32::try_from(drawn >> 32).unwrap_or(u32::MAX)
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn seconds(us: u64) -> f64 {
    pinfold_proto::view::seconds(us)
}

/// `pinfold hub status --json`.
#[derive(Debug, Serialize)]
struct HubStatus {
    version: u32,
    /// The hub; `null`: none was joined.
    url: Option<String>,
    /// The hub's name for this host.
    name: Option<String>,
    /// The hub's own key, which `learning.from_hub` names.
    hub_key: Option<String>,
    /// Whether a pusher runs.
    running: bool,
    /// When the hub last took something, in Unix seconds.
    reached_s: Option<f64>,
    /// Why it took nothing since.
    failed: Option<String>,
    /// Why not all jobs that are over are in the spool.
    trouble: Option<String>,
    spool: SpoolFigures,
}

/// `pinfold hub status`.
pub(super) fn status(json: bool) -> Result<(), Failure> {
    let dir = push_dir()?;
    let joined = settings(&dir)?;
    let said: Option<Said> =
        std::fs::read(dir.join(SAID)).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let said = said.filter(|_| joined.is_some()).unwrap_or_default();
    let running = joined.is_some() && is_running(&dir)?;
    let spool = if joined.is_some() && !running { waiting(&dir)? } else { said.spool };
    let hub_key = joined.as_ref().and_then(|joined| joined.hub_key.clone());
    let (url, name) = joined.map(|joined| (joined.url, joined.name)).unzip();
    let Said { reached_s, failed, trouble, .. } = said;
    let view = HubStatus { version: 1, url, name, hub_key, running, reached_s, failed, trouble, spool };
    if json {
        return print_json(&view);
    }
    print_text(|out| write(&view, out))
}

fn write(view: &HubStatus, out: &mut dyn io::Write) -> io::Result<()> {
    let (Some(url), Some(name)) = (&view.url, &view.name) else {
        return writeln!(out, "this host has joined no hub");
    };
    writeln!(out, "this host is {} to {}", plain(name), plain(url))?;
    if let Some(key) = &view.hub_key {
        writeln!(out, "the hub's key is {}", plain(key))?;
    }
    match (view.running, view.reached_s) {
        (false, _) => writeln!(out, "no pusher runs: `pinfold hub push` is one, and docs/hub.md has a unit")?,
        (true, None) => writeln!(out, "the pusher runs, and has not reached the hub yet")?,
        (true, Some(reached_s)) => {
            writeln!(out, "the pusher runs, and reached the hub at {}", date_here(reached_s))?
        }
    }
    for wrong in [&view.failed, &view.trouble].into_iter().flatten() {
        writeln!(out, "{}", plain(wrong))?;
    }
    let SpoolFigures { bundles, bytes, max_bytes, jobs_waiting, refused } = view.spool;
    writeln!(
        out,
        "waiting: {bundles} bundles, {} of {}, and {jobs_waiting} jobs beside them",
        size(bytes),
        size(max_bytes)
    )?;
    if refused > 0 {
        writeln!(out, "refused by the hub for good: {refused} bundles, kept in `refused`")?;
    }
    if view.running && view.failed.is_some() {
        writeln!(out, "it is tried again within {} s", LONGEST_PAUSE.as_secs())?;
    }
    Ok(())
}

/// The bundles that wait in a spool; the pusher may be gone.
pub(super) fn waiting(dir: &Path) -> Result<SpoolFigures, Failure> {
    let spool = Spool::look(RealDisk, dir).map_err(|error| Failure::doing("the spool", &error))?;
    Ok(SpoolFigures {
        bundles: spool.bundles(),
        bytes: spool.held_bytes(),
        max_bytes: spool.max_bytes(),
        jobs_waiting: 0,
        refused: spool.refused(),
    })
}

/// Removes the files of a pusher, but for refused bundles.
pub(super) fn remove_spool(dir: &Path) -> Result<(), Failure> {
    let failed = |what: &Path, error: &io::Error| {
        Failure::doing(format!("failed to remove {}", what.display()), error)
    };
    let spool = dir.join("spool");
    let held = if spool.is_dir() { RealDisk.list(&spool) } else { Ok(Vec::new()) };
    for (name, _) in held.map_err(|error| failed(&spool, &error))? {
        let path = spool.join(name);
        RealDisk.remove(&path).map_err(|error| failed(&path, &error))?;
    }
    for name in [CURSOR, SAID] {
        let path = dir.join(name);
        RealDisk.remove(&path).map_err(|error| failed(&path, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pusher_keeps_stays_as_long_as_it_works() {
        let dir = tempfile::tempdir().unwrap();
        assert!(ended(dir.path(), Duration::ZERO).unwrap().is_none(), "there was none");
        let works = alone(dir.path()).unwrap().expect("no other one works there");
        std::fs::write(dir.path().join(CURSOR), "{}").unwrap();
        let failure = ended(dir.path(), Duration::ZERO).expect_err("it has not ended");
        assert!(failure.message.contains("has not ended yet"), "{failure}");
        drop(works);
        // What another test starts at this moment has the lock as well, until it executes its program.
        let _alone = ended(dir.path(), Duration::from_secs(120)).unwrap().expect("it has ended");
        assert!(left_something(dir.path()));
        remove_spool(dir.path()).unwrap();
        assert!(!left_something(dir.path()));
    }
}
