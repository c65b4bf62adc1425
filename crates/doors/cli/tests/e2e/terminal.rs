//! `pinfold run` on a terminal: what a person types reaches the command as without pinfold.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use pinfold_proto::JobState;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::process::ended_within;
use crate::wait::{PATIENCE, eventually, no_rescue};

tests! {
    Each: ctrl_c_thaws, ctrl_z_and_fg;
    Best: ctrl_c, ctrl_c_in_the_queue, the_terminal_goes_away, the_terminal_of_a_step_goes_away,
        the_size_of_the_window, an_export_does_nothing_to_it, json_does_nothing_to_it, progress_of_a_batch;
}

/// A terminal, and the name of its other side.
fn open(host: &Host) -> (File, String) {
    // It hangs up when the last copy of this side is closed: no process may inherit one.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).expect("a terminal");
    grantpt(&master).expect("a terminal of one's own");
    unlockpt(&master).expect("an open terminal");
    let name = ptsname(&master, Vec::new()).expect("its name").into_string().expect("a plain name");
    host.kind().give(name.as_ref());
    // A window that is large enough not to fold what is looked for.
    tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 }).expect("its size");
    (File::from(master), name)
}

/// A terminal with a process on it that leads its session, as a login shell does.
pub(crate) struct Terminal {
    master: File,
    child: Child,
    shown: String,
}

impl Terminal {
    pub(crate) fn start(host: &Host, command: &[&str]) -> Self {
        let (master, name) = open(host);
        let side =
            || Stdio::from(File::options().read(true).write(true).open(&name).expect("the other side"));
        let mut setsid: Command = host.command("setsid");
        setsid.args(["--ctty", "--wait"]).args(command).env("PS1", "prompt> ").env("TERM", "dumb");
        let child = setsid.stdin(side()).stdout(side()).stderr(side()).spawn().expect("setsid starts");
        rustix::io::ioctl_fionbio(&master, true).expect("reading without waiting");
        Self { master, child, shown: String::new() }
    }

    pub(crate) fn type_in(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).expect("the terminal takes it");
    }

    /// Waits until the terminal has shown this since the last time; forgets what came before and up to it.
    #[track_caller]
    pub(crate) fn until_shown(&mut self, text: &str) {
        eventually(&format!("{text:?} is shown"), || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = self.master.read(&mut buffer) {
                self.shown.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
            match self.shown.split_once(text) {
                Some((_, rest)) => {
                    self.shown = rest.to_owned();
                    Ok(())
                }
                None => Err(format!("{:?}", self.shown)),
            }
        });
    }

    /// Closes the window.
    pub(crate) fn hang_up(&mut self) {
        self.master = File::open("/dev/null").expect("it is always there");
    }

    #[track_caller]
    pub(crate) fn ends(&mut self) -> Option<i32> {
        let status = ended_within(&mut self.child, PATIENCE);
        status.unwrap_or_else(|| panic!("it does not end; shown: {:?}", self.shown)).code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn ctrl_c(kind: Kind) {
    let host = Host::new(kind);
    let mut terminal =
        Terminal::start(&host, &["pinfold", "run", "--", "/bin/sh", "-c", "echo ready; exec sleep 1000"]);
    terminal.until_shown("ready");
    terminal.type_in("\x03");
    assert_eq!(terminal.ends(), Some(130));
    assert_eq!(host.until(1, JobState::Exited).signal, Some(2));
    // A command that takes it as a wish decides itself.
    let script = "trap 'echo heard; exit 9' INT; echo ready; while :; do sleep 0.05; done";
    let mut terminal = Terminal::start(&host, &["pinfold", "run", "--", "/bin/sh", "-c", script]);
    terminal.until_shown("ready");
    terminal.type_in("\x03");
    terminal.until_shown("heard");
    assert_eq!(terminal.ends(), Some(9));
}

fn ctrl_c_in_the_queue(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    host.submit(&[], "until [ -e go ]; do sleep 0.05; done");
    host.until(1, JobState::Running);
    let mut terminal =
        Terminal::start(&host, &["pinfold", "run", "--", "/bin/sh", "-c", "echo never >never"]);
    terminal.until_shown("job 2 waits: it is next, and the only slot is taken (pinfold why 2)");
    terminal.type_in("\x03");
    assert_eq!(terminal.ends(), Some(130));
    let view = host.until(2, JobState::Exited);
    assert_eq!(view.started_s, None);
    assert!(view.reason.is_some(), "{view:?}");
    assert!(!host.work("never").exists());
}

/// A frozen job could not hear the terminal; the user there wants it over all the same.
fn ctrl_c_thaws(kind: Kind) {
    let _frozen = no_rescue();
    let host = Host::new(kind);
    let mut terminal =
        Terminal::start(&host, &["pinfold", "run", "--", "/bin/sh", "-c", "echo ready; exec sleep 1000"]);
    terminal.until_shown("ready");
    host.succeeds(["suspend", "1"]);
    host.until(1, JobState::Frozen);
    terminal.type_in("\x03");
    assert_eq!(terminal.ends(), Some(130));
    assert_eq!(host.until(1, JobState::Exited).signal, Some(2));
}

fn ctrl_z_and_fg(kind: Kind) {
    let _stopped = no_rescue();
    let host = Host::new(kind);
    let mut terminal = Terminal::start(&host, &["/bin/sh", "-i"]);
    terminal.until_shown("prompt> ");
    terminal.type_in(
        // A shell that waits for the child it has just forked cannot be stopped itself; this one forks none.
        "pinfold run -- /bin/sh -c 'echo rea\"\"dy; until [ -e go ]; do :; done; exit 7'\n",
    );
    terminal.until_shown("ready");
    let command = crate::host::root_process(&host.until(1, JobState::Running).pids).expect("it runs");
    terminal.type_in("\x1a");
    terminal.until_shown("Stopped");
    let state = || crate::host::status_field(command, "State").unwrap_or_default();
    eventually("the command is stopped too", || if state().starts_with('T') { Ok(()) } else { Err(state()) });
    host.make("go");
    terminal.until_shown("prompt> ");
    terminal.type_in("fg\n");
    terminal.until_shown("prompt> ");
    terminal.type_in("echo status $?.\n");
    terminal.until_shown("status 7.");
    terminal.type_in("exit\n");
    assert_eq!(terminal.ends(), Some(0));
    assert_eq!(host.until(1, JobState::Exited).exit_code, Some(7));
}

fn the_size_of_the_window(kind: Kind) {
    let host = Host::new(kind);
    let script = "trap 'stty size' WINCH; stty size; echo ready; until [ -e go ]; do sleep 0.05; done";
    let mut terminal = Terminal::start(&host, &["pinfold", "run", "--", "/bin/sh", "-c", script]);
    terminal.until_shown("24 200");
    terminal.until_shown("ready");
    let size = Winsize { ws_row: 33, ws_col: 111, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal.master, size).expect("another size");
    terminal.until_shown("33 111");
    host.make("go");
    assert_eq!(terminal.ends(), Some(0));
}

/// The window is closed: the command gets the hang-up, as without pinfold.
fn the_terminal_goes_away(kind: Kind) {
    let host = Host::new(kind);
    let script = "trap 'echo gone >gone; exit 1' HUP; echo ready; while :; do sleep 0.05; done";
    let mut terminal = Terminal::start(&host, &["pinfold", "run", "--", "/bin/sh", "-c", script]);
    terminal.until_shown("ready");
    // The kernel tells the leader of the session alone, which is `pinfold run`.
    terminal.hang_up();
    host.until_made("gone");
    assert_eq!(terminal.ends(), Some(1));
    assert_eq!(host.until(1, JobState::Exited).exit_code, Some(1));
}

/// The same of a step within a job, and of a job with a step.
fn the_terminal_of_a_step_goes_away(kind: Kind) {
    let host = Host::new(kind);
    // Only once srun, its parent, takes signals as data: the first bit is that of the hang-up.
    let heard = |name: &str| {
        format!(
            "trap 'echo gone >{name}.gone; exit 1' HUP\n\
             until grep -q '^SigBlk:.*[13579bdf]$' /proc/$PPID/status; do sleep 0.05; done\n\
             : >{name}\nwhile :; do sleep 0.05; done\n"
        )
    };
    std::fs::write(host.work("inner"), heard("in")).expect("a file");
    std::fs::write(host.work("outer"), heard("out")).expect("a file");
    let (master, name) = open(&host);
    // It leads a session of its own, on this terminal. A subshell opens the terminal, for the script leads the job's session,
    // whose terminal it would become.
    let inner = format!("(setsid --ctty --wait srun sh inner <{name} >{name} 2>&1); exit $?");
    let text = host.shell(&format!("PATH=$(pinfold slurm --dir):$PATH; sbatch --parsable --wrap '{inner}'"));
    assert_eq!((text.code, text.out.trim()), (Some(0), "1"), "{text:?}");
    host.until_made("in");
    drop(master);
    host.until_made("in.gone");
    assert_eq!(host.until(1, JobState::Exited).exit_code, Some(1));
    let srun = host.programs().join("pinfold-slurm");
    let mut terminal =
        Terminal::start(&host, &[srun.to_str().expect("a plain path"), "srun", "/bin/sh", "outer"]);
    host.until_made("out");
    terminal.hang_up();
    host.until_made("out.gone");
    assert_eq!(terminal.ends(), Some(1));
}

fn progress_of_a_batch(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1"]);
    std::fs::write(host.work("lines"), "true\ntrue\nuntil [ -e go ]; do sleep 0.05; done\n").expect("a file");
    let mut terminal = Terminal::start(&host, &["pinfold", "batch", "lines"]);
    terminal.until_shown("2/3 done, 1 running");
    host.make("go");
    assert_eq!(terminal.ends(), Some(0));
}

/// Names are users' own; a file or a pipe gets them as they are.
fn an_export_does_nothing_to_it(kind: Kind) {
    let host = Host::new(kind);
    host.succeeds(["run", "--name", "a\u{1b}[2Jb", "--", "true"]);
    host.until(1, JobState::Exited);
    let table = host.pinfold(["export", "--last", "1"]);
    assert!(table.out.contains("a\u{1b}[2Jb"), "{table:?}");
    let mut terminal = Terminal::start(&host, &["pinfold", "export", "--last", "1"]);
    terminal.until_shown("a?[2Jb");
    assert_eq!(terminal.ends(), Some(0));
}

/// Names are users' own; a file or a pipe gets them byte for byte, and a terminal the same value in escapes.
fn json_does_nothing_to_it(kind: Kind) {
    let host = Host::new(kind);
    let name = "a\u{9b}2Jb\u{202e}c\u{7f}";
    host.succeeds(["run", "--name", name, "--", "true"]);
    host.until(1, JobState::Exited);
    let piped = host.pinfold(["report", "1", "--json"]).out;
    assert!(piped.contains(name), "{piped}");
    for command in ["report", "status"] {
        let mut terminal = Terminal::start(&host, &["pinfold", command, "1", "--json"]);
        terminal.until_shown(r"a\u009b2Jb\u202ec\u007f");
        assert_eq!(terminal.ends(), Some(0), "{command}");
    }
}
