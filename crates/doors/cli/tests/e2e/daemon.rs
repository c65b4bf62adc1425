//! The daemon as a process: its socket, its state directory, private daemons, and what is refused at the start.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;

use pinfold_proto::JobState;
use pinfold_testkit::ignore;
use rustix::process::Signal;

use crate::host::{Host, processes_with, send, status_field};
use crate::kind::{Kind, tests};
use crate::modules::NobodysPlace;
use crate::process::{Done, ended_within};
use crate::wait::{PATIENCE, eventually};

tests! {
    Each: nothing_is_left_in_the_kernel;
    Best: two_on_one_state_directory, commands_elsewhere_name_the_daemon_of_their_state, two_on_one_socket,
        a_socket_that_a_dead_daemon_left, a_socket_that_was_removed_is_made_anew,
        something_else_in_the_place_of_the_socket, a_group_that_another_program_removed,
        a_users_configuration_lasts, a_store_that_is_damaged;
    User: no_daemon_and_none_wanted, a_private_daemon,
        a_private_daemon_that_was_idle_too_soon_is_started_again, a_private_daemon_keeps_its_settings,
        a_private_daemon_keeps_nothing_of_its_starter, many_first_commands_share_one_daemon,
        a_running_batch_outlives_its_private_daemon;
    Once: one_user_has_one_daemon_wherever_the_command_comes_from,
        a_user_who_logs_out_and_in_keeps_their_daemon, as_a_containers_first_process_it_leaves_no_zombies,
        as_a_containers_first_process_that_is_killed_it_leaves_a_while_to_others;
}

/// Starts another daemon that is expected to give up; gives its exit code and words.
fn refused(host: &Host, command: &mut std::process::Command) -> (Option<i32>, String) {
    let log = host.path("second.log");
    command.stderr(std::fs::File::create(&log).expect("a log"));
    let mut daemon = command.spawn().expect("it starts");
    let status = ended_within(&mut daemon, PATIENCE);
    let said = std::fs::read_to_string(&log).expect("its words");
    let status = status.unwrap_or_else(|| {
        let _ = daemon.kill();
        let _ = daemon.wait();
        panic!("a second daemon runs: {said}")
    });
    (status.code(), said)
}

fn two_on_one_state_directory(kind: Kind) {
    let host = Host::new(kind);
    let mut second = host.command(host.programs().join("pinfoldd"));
    second
        .args(kind.daemon_options())
        .arg("--socket")
        .arg(host.path("other.sock"))
        .arg("--state-dir")
        .arg(host.state());
    second.stdin(Stdio::null()).stdout(Stdio::null());
    let (code, said) = refused(&host, &mut second);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("process {}", host.daemon_pid())), "it names the first: {said}");
    assert!(said.contains(&host.state().display().to_string()), "{said}");
    assert!(said.contains(&format!(", socket {})", host.socket().display())), "{said}");
    assert_eq!(host.pinfold(["run", "true"]).code, Some(0), "the first goes on");
}

/// A command whose own daemon would have the state of one that listens elsewhere says how that one is reached.
fn commands_elsewhere_name_the_daemon_of_their_state(kind: Kind) {
    let host = Host::new(kind);
    let own = host.path("other.sock");
    let mut command = host.command(host.programs().join("pinfold"));
    command.env("PINFOLD_SOCKET", &own).env("PINFOLD_STATE_DIR", host.state());
    command.args(["run", "true"]).stdin(Stdio::null());
    let done = host.spawn(command).wait();
    let (socket, state) = (host.socket().display().to_string(), host.state().display().to_string());
    let said = format!(
        "no daemon on {}: the one on {socket} works on the state directory {state}; to use that one, say --socket \
         {socket}, or set PINFOLD_SOCKET={socket}",
        own.display()
    );
    assert!(done.code == Some(4) && done.err.contains(&said), "{done:?}");
}

/// A login has `$XDG_RUNTIME_DIR`, and cron has none or another: both have one home, and so one daemon.
fn one_user_has_one_daemon_wherever_the_command_comes_from() {
    Kind::Nobody.or_ignored();
    let host = Host::without_daemon(Kind::Nobody, &[]);
    let from = |place: &str, arguments: &[&str]| {
        let runtime = host.work(place);
        std::fs::create_dir_all(&runtime).expect("a directory");
        Kind::Nobody.give(&runtime);
        let mut command = host.command(host.programs().join("pinfold"));
        command
            .env_remove("PINFOLD_SOCKET")
            .env("XDG_RUNTIME_DIR", runtime)
            .env("PINFOLD_PRIVATE_IDLE", "1h");
        command.args(arguments).stdin(Stdio::null());
        host.spawn(command).wait()
    };
    let instance = |place: &str| {
        let done = from(place, &["run", "--", "/bin/sh", "-c", "echo $PINFOLD_INSTANCE $PINFOLD_JOB_ID"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out
    };
    let (login, cron) = (instance("login"), instance("cron"));
    assert!(login.ends_with(" 1\n") && cron == login.replace(" 1\n", " 2\n"), "{login} {cron}");
    assert!(!host.work("cron/pinfold").exists(), "no other daemon was looked for there");
    let done = from("cron", &["status", "--all", "--json"]);
    assert!(done.out.contains("\"job\":1,") && done.out.contains("\"job\":2,"), "{done:?}");
    let socket = host.work("login/pinfold/pinfold.sock").display().to_string();
    let daemons = processes_with(&socket);
    daemons.iter().for_each(|&pid| send(pid, Signal::TERM));
    eventually("it ends", || if processes_with(&socket).is_empty() { Ok(()) } else { Err("it runs") });
}

fn two_on_one_socket(kind: Kind) {
    let host = Host::new(kind);
    let mut second = host.command(host.programs().join("pinfoldd"));
    second
        .args(kind.daemon_options())
        .arg("--socket")
        .arg(host.socket())
        .arg("--state-dir")
        .arg(host.path("state-2"));
    second.stdin(Stdio::null()).stdout(Stdio::null());
    let first = format!("(process {}, with its state in {})", host.daemon_pid(), host.state().display());
    // It asks the first one, for two seconds.
    eventually("it names the first", || {
        let (code, said) = refused(&host, &mut second);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&host.socket().display().to_string()), "{said}");
        if said.contains(&first) { Ok(()) } else { Err(said) }
    });
    assert_eq!(host.pinfold(["run", "true"]).code, Some(0), "the first goes on");
}

fn a_socket_that_a_dead_daemon_left(kind: Kind) {
    let mut host = Host::new(kind);
    host.crash();
    assert!(host.socket().exists());
    let done = host.pinfold(["--no-autostart", "status"]);
    assert_eq!(done.code, Some(4), "{done:?}");
    host.start_daemon();
    host.succeeds(["run", "true"]);
    let mode = std::fs::metadata(host.socket()).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o666, "all users may ask");
    let mode = std::fs::metadata(host.state()).expect("the state").mode();
    assert_eq!(mode & 0o777, 0o700, "the state is its owner's alone");
}

fn a_socket_that_was_removed_is_made_anew(kind: Kind) {
    let host = Host::new(kind);
    let job = host.submit(&[], "until [ -e go ]; do sleep 0.05; done");
    std::fs::remove_file(host.socket()).expect("it is there");
    eventually("it is made anew, and all users may ask", || {
        let mode = std::fs::metadata(host.socket()).map(|found| found.permissions().mode() & 0o777);
        if mode.as_ref().is_ok_and(|mode| *mode == 0o666) { Ok(()) } else { Err(format!("{mode:?}")) }
    });
    host.make("go");
    host.until(job, JobState::Exited);
    host.succeeds(["run", "true"]);
}

/// `/run/user/UID` goes with a user's last login and comes with the next one. Meanwhile cron reaches their daemon.
fn a_user_who_logs_out_and_in_keeps_their_daemon() {
    Kind::Nobody.or_ignored();
    let place = NobodysPlace::take();
    let host = Host::without_daemon(Kind::Nobody, &[]);
    // Which is root's, as `/run/user` is.
    let (users, runtime) = (host.path("user"), host.path("user/65534"));
    std::fs::create_dir(&users).expect("a directory");
    let log_in = || {
        std::fs::create_dir(&runtime).expect("a directory");
        Kind::Nobody.give(&runtime);
    };
    let pinfold = |variables: &[(&str, &Path)], arguments: &[&str]| {
        let mut command = host.command(host.programs().join("pinfold"));
        command.env_remove("PINFOLD_SOCKET").env_remove("XDG_RUNTIME_DIR").env("PINFOLD_PRIVATE_IDLE", "1h");
        command.envs(variables.iter().copied()).args(arguments).stdin(Stdio::null());
        let done = host.spawn(command).wait();
        assert_eq!(done.code, Some(0), "{arguments:?} {done:?}");
        done.out
    };
    let (login, own) = ([("XDG_RUNTIME_DIR", &*runtime)], runtime.join("pinfold/pinfold.sock"));
    let is_at = |socket: &Path, other: &Path| match (socket.exists(), other.exists()) {
        (true, false) => Ok(()),
        found => Err(format!("{found:?}")),
    };
    log_in();
    let script = "until [ -e go ]; do sleep 0.05; done; exit 3";
    assert_eq!(pinfold(&login, &["submit", "--", "/bin/sh", "-c", script]), "1\n");
    let which = ["run", "--", "/bin/sh", "-c", "echo $PINFOLD_INSTANCE"];
    let instance = pinfold(&login, &which);
    // The daemon may make its socket anew in a directory that is just being emptied.
    let log_out = || eventually("the last login is over", || std::fs::remove_dir_all(&runtime));
    log_out();
    // At once: a daemon that is started for it gives way to the one that is there, which is waited for.
    assert_eq!(pinfold(&[], &which), instance);
    log_in();
    eventually("it is back where it was", || is_at(&own, &place.socket()));
    assert_eq!(pinfold(&login, &which), instance);
    log_out();
    eventually("it is where cron looks", || is_at(&place.socket(), &own));
    // The keeper of the first job knows no other place than that of the login.
    let state = pinfold_sys::shared::of_host(host.work(".state/pinfold"), "pinfold.db");
    let daemon = || {
        let lock = std::fs::read_to_string(state.join("lock")).expect("it is locked");
        lock.lines().next().and_then(|pid| pid.parse().ok()).expect("a process")
    };
    let is_gone = |pid| match status_field(pid, "State") {
        Some(state) if !state.starts_with('Z') => Err(state),
        _ => Ok(()),
    };
    let killed = daemon();
    send(killed, Signal::KILL);
    eventually("it ends", || is_gone(killed));
    assert_eq!(pinfold(&[], &which), instance);
    host.make("go");
    eventually("the end is told", || {
        let told = pinfold(&[], &["status", "--all", "--json"]);
        if told.contains("\"exit_code\":3") { Ok(()) } else { Err(told) }
    });
    log_in();
    assert_eq!(pinfold(&login, &which), instance);
    let last = daemon();
    send(last, Signal::TERM);
    eventually("it ends", || is_gone(last));
}

/// How a daemon ends that is the first process of a namespace, where a script goes on beside it once it listens; `None`:
/// there are no such namespaces here.
fn as_a_first_process(host: &Host, beside: &str) -> Done {
    let unshare = |words: &[&str]| {
        let mut command = host.command("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).args(words).stdin(Stdio::null());
        host.spawn(command).wait()
    };
    if unshare(&["true"]).code != Some(0) {
        ignore!("no namespace of process numbers can be made here");
    }
    let script = format!(
        r#"(until [ -S "$PINFOLD_SOCKET" ]; do sleep 0.05; done; {beside}) &
        exec pinfoldd --mode rootless --socket "$PINFOLD_SOCKET" --state-dir state"#
    );
    unshare(&["sh", "-c", &script])
}

/// Keepers, and what jobs leave, have the container's first process for a parent.
fn as_a_containers_first_process_it_leaves_no_zombies() {
    let host = Host::without_daemon(Kind::Rootless, &[]);
    // Keepers are called `pinfold` as well.
    let beside = r#"
        for _ in 1 2 3; do pinfold submit -o /dev/null -e /dev/null -- sh -c 'sleep 0.1 & :'; done
        pinfold wait 1 2 3
        left() { grep -lxE 'pinfold|sleep' /proc/[0-9]*/comm 2>/dev/null | wc -l; }
        tries=0 left=$(left)
        while [ "$left" != 0 ] && [ $tries -lt 600 ]; do tries=$((tries + 1)); sleep 0.1; left=$(left); done
        echo "$left" >left
        kill -TERM 1"#;
    let done = as_a_first_process(&host, beside);
    assert_eq!((done.code, host.wrote("left").trim()), (Some(0), "0"), "{done:?}");
}

/// So that its guard has time to thaw what it froze.
fn as_a_containers_first_process_that_is_killed_it_leaves_a_while_to_others() {
    let host = Host::without_daemon(Kind::Rootless, &[]);
    // The file is there before, for a busy disk can take longer to make one than the others have.
    let beside = r#"
        exec 3>after
        daemon=$(head -n 1 state/lock)
        kill -KILL "$daemon"
        while [ -e "/proc/$daemon" ]; do sleep 0.01; done
        echo it is gone >&3"#;
    // The while is short: on a busy machine the others may not come to it each time.
    let is_left = (0..3).any(|_| {
        let _ = std::fs::remove_dir_all(host.work("state"));
        let _ = std::fs::remove_file(host.socket());
        let done = as_a_first_process(&host, beside);
        assert_eq!(done.code, Some(137), "{done:?}");
        host.wrote("after") == "it is gone\n"
    });
    assert!(is_left, "nothing else of the container came to write once the daemon was killed");
}

fn something_else_in_the_place_of_the_socket(kind: Kind) {
    let host = Host::without_daemon(kind, &[]);
    std::fs::write(host.socket(), "precious").expect("a file");
    let (code, said) = refused(&host, &mut host.daemon_command(&host.path("log")));
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(std::fs::read_to_string(host.socket()).expect("still there"), "precious");
    // Nobody who listens is taken for a daemon just because he listens.
    std::fs::remove_file(host.socket()).expect("removed");
    let deaf = UnixListener::bind(host.socket()).expect("a socket");
    kind.give(&host.socket());
    let client = std::thread::spawn(move || drop(deaf.accept()));
    let done = host.pinfold(["status"]);
    assert_eq!(done.code, Some(4), "{done:?}");
    client.join().expect("it took the client");
}

fn no_daemon_and_none_wanted(kind: Kind) {
    let host = Host::without_daemon(kind, &[]);
    for arguments in
        [&["status"][..], &["run", "true"], &["submit", "true"], &["wait", "1"], &["suspend", "1"]]
    {
        let done = host.pinfold([&["--no-autostart"], arguments].concat());
        assert_eq!(done.code, Some(4), "{arguments:?}: {done:?}");
        assert!(done.err.contains(&host.socket().display().to_string()), "{done:?}");
    }
    let socket = host.path("named.sock").display().to_string();
    let done = host.pinfold(["--socket", &socket, "status"]);
    assert_eq!(done.code, Some(4), "a socket named by option is somebody's own affair: {done:?}");
}

/// The daemons that serve this host's socket, but for their guards.
fn daemons(host: &Host) -> Vec<u32> {
    let is_daemon = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "pinfoldd")
    };
    processes_with(&host.socket().display().to_string()).into_iter().filter(is_daemon).collect()
}

/// Ends the private daemon of a host.
fn end_daemons(host: &Host) {
    let running = daemons(host);
    running.iter().for_each(|&pid| send(pid, Signal::TERM));
    eventually("the private daemon ends", || if daemons(host).is_empty() { Ok(()) } else { Err("it runs") });
}

/// One that was not asked for in so many words goes when nobody needs it.
fn a_private_daemon(kind: Kind) {
    let host = Host::without_daemon(kind, &[]);
    let first = |idle: &str, script: &str| {
        let mut command = host.command(host.programs().join("pinfold"));
        command
            .env("PINFOLD_PRIVATE_IDLE", idle)
            .args(["run", "--", "/bin/sh", "-c", script])
            .stdin(Stdio::null());
        host.spawn(command).wait()
    };
    let done = first("3s", "echo hello; exit 3");
    assert_eq!((done.code, done.out.as_str()), (Some(3), "hello\n"), "{done:?}");
    eventually("it ends when nobody needs it", || {
        if daemons(&host).is_empty() { Ok(()) } else { Err("it runs") }
    });
    assert!(!host.socket().exists());
    let done = first("1h", "exit 4");
    assert_eq!(done.code, Some(4), "{done:?}");
    // Its guard bears its name until it has taken its own.
    eventually("one daemon runs", || match daemons(&host).len() {
        1 => Ok(()),
        count => Err(count),
    });
    let running = daemons(&host);
    eventually("one history", || {
        let done = host.pinfold(["--no-autostart", "status", "--json", "--all"]);
        let both = done.out.contains("\"exit_code\":3") && done.out.contains("\"exit_code\":4");
        if both { Ok(()) } else { Err(format!("{done:?}")) }
    });
    // It belongs to no terminal.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", running[0])).expect("it runs");
    let after_name = stat.rsplit(") ").next().expect("fields").split(' ').collect::<Vec<_>>();
    assert_eq!(
        (after_name[3], after_name[4]),
        (running[0].to_string().as_str(), "0"),
        "session and terminal: {stat}"
    );
    end_daemons(&host);
}

/// On a busy host it may be ready, find itself idle and end before its starter connects.
fn a_private_daemon_that_was_idle_too_soon_is_started_again(kind: Kind) {
    let host = Host::without_daemon(kind, &[]);
    let programs = host.path("too-soon");
    std::fs::create_dir(&programs).expect("a directory");
    crate::host::copy_program(&host.programs().join("pinfold"), &programs);
    let daemon = host.programs().join("pinfoldd");
    // Says that it is ready as the daemon does, on its standard input, and is gone.
    let text = format!(
        "#!/bin/sh\nif [ -e first ]; then exec {} \"$@\"; fi\n: >first\necho ready >&0\n",
        daemon.display()
    )
    .replace("first", &host.work("first").display().to_string());
    pinfold_testkit::executable(&programs.join("pinfoldd"), &text);
    let mut command = host.command(programs.join("pinfold"));
    command.args(["run", "--", "/bin/sh", "-c", "exit 3"]).stdin(Stdio::null());
    let done = host.spawn(command).wait();
    assert!(host.work("first").exists(), "one was started before");
    assert_eq!(done.code, Some(3), "{done:?}");
    end_daemons(&host);
}

/// Whoever reads what a command says to its end does not wait for the daemon that the command started, by whatever
/// descriptor that could say something; and a signal that the command ignores, hooks and keepers do not.
fn a_private_daemon_keeps_nothing_of_its_starter(kind: Kind) {
    let host = Host::without_daemon(kind, &[]);
    // Soft limits: a hard one cannot be lifted as a user.
    let script = "(trap '' USR1; ulimit -S -f 1000; ulimit -S -n 200; umask 0; exec taskset -c $(taskset -pc $$ | \
                  sed 's/.*: //; s/[-,].*//') pinfold run true 9>&1 >said) | cat";
    let mut command = host.command("/bin/sh");
    command.args(["-c", script]).env("PINFOLD_PRIVATE_IDLE", "1h").stdin(Stdio::null());
    host.spawn(command).wait().ended_with(0);
    let running = daemons(&host);
    assert!(!running.is_empty(), "it goes on");
    let ignored = status_field(running[0], "SigIgn").expect("it runs");
    let ignored = u64::from_str_radix(&ignored, 16).expect("a mask");
    assert_eq!(ignored & (1 << (Signal::USR1.as_raw() - 1)), 0, "{ignored:x}");
    let cpus = |process: u32| status_field(process, "Cpus_allowed_list");
    assert_eq!(cpus(running[0]), cpus(std::process::id()));
    assert_eq!(status_field(running[0], "Umask").as_deref(), Some("0077"));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running[0])).expect("it runs");
    for name in ["Max file size", "Max open files"] {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).expect("a limit");
        let values: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(values[0], values[1], "soft and hard: {name}");
    }
    end_daemons(&host);
}

/// Settings hold in the next private daemon too, and `config set` says where they are kept.
fn a_private_daemon_keeps_its_settings(kind: Kind) {
    let host = Host::without_daemon(kind, &[]);
    let done = host.pinfold(["config", "set", "host.memory=3GiB", "slots.factor=1"]);
    assert!(done.code == Some(0) && done.err.contains("host.memory is \"3GiB\"; kept in "), "{done:?}");
    end_daemons(&host);
    let done = host.pinfold(["config", "get", "--json"]);
    assert!(done.out.contains("3GiB") && done.out.contains("\"set\""), "{done:?}");
    // A key that is as by default again is kept as well; a saved one is the file's.
    host.pinfold(["config", "set", "host.memory="]).ended_with(0);
    end_daemons(&host);
    let done = host.pinfold(["config", "get", "host.memory"]);
    assert!(!done.out.contains("3GiB"), "{done:?}");
    end_daemons(&host);
}

/// What a user saved is there for the next private daemon, and a file that is wrong is named with its key.
fn a_users_configuration_lasts(kind: Kind) {
    let host = Host::without_daemon(kind, &[]);
    let file = host.work(".config/pinfold/pinfold.toml");
    let done = host.pinfold(["config", "set", "slots.factor=3", "priority.default=7"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!file.exists(), "only once it is saved");
    let done = host.pinfold(["config", "save"]);
    assert!(done.code == Some(0) && done.err.contains(&file.display().to_string()), "{done:?}");
    end_daemons(&host);
    let done = host.pinfold(["config", "get", "slots.factor"]);
    assert_eq!((done.code, done.out.trim()), (Some(0), "3"), "{done:?}");
    let done = host.pinfold(["config", "get", "--json"]);
    assert!(done.out.contains("\"origin\":\"file\""), "{done:?}");
    // Comments of the user's stay.
    let text = std::fs::read_to_string(&file).expect("it was saved");
    std::fs::write(&file, format!("# mine\n{text}")).expect("it is there");
    host.succeeds(["config", "set", "priority.default=8"]);
    host.succeeds(["config", "save"]);
    let text = std::fs::read_to_string(&file).expect("it was saved");
    assert!(text.starts_with("# mine") && text.contains("default = 8"), "{text}");
    end_daemons(&host);
    std::fs::write(&file, "[slots]\nfacter = 1\n").expect("it is there");
    let done = host.pinfold(["status"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("pinfold.toml") && done.err.contains("facter"), "{done:?}");
    let done = host.pinfold(["run", "--fallback", "--", "/bin/sh", "-c", "exit 7"]);
    assert!(done.code == Some(7) && done.err.contains("unmanaged"), "{done:?}");
}

fn many_first_commands_share_one_daemon(kind: Kind) {
    let host = Host::without_daemon(kind, &[]);
    let all: Vec<_> =
        (0..6).map(|i| host.start(["run", "--", "/bin/sh", "-c", &format!("exit {i}")])).collect();
    for (i, running) in (0..).zip(all) {
        let done = running.wait();
        assert_eq!(done.code, Some(i), "{done:?}");
    }
    // Those that came too late end, and a guard bears the daemon's name until it has taken its own.
    eventually("one daemon runs", || match daemons(&host).len() {
        1 => Ok(()),
        count => Err(count),
    });
    assert_eq!(host.status(&[1, 2, 3, 4, 5, 6]).jobs.len(), 6);
    end_daemons(&host);
}

/// What keeps the jobs is not the daemon: when it dies, the next command that wants one, or the batch itself, starts
/// another.
fn a_running_batch_outlives_its_private_daemon(kind: Kind) {
    let host = Host::without_daemon(kind, &[]);
    let lines = ": >ready; until [ -e go ]; do sleep 0.05; done; exit 3\n".to_owned() + &"exit 4\n".repeat(8);
    std::fs::write(host.work("lines"), lines).expect("a file");
    let batch = host.start(["batch", "--json", "lines"]);
    host.until_made("ready");
    // A number may be given again at once, while other tests play with the next one.
    let proc = pinfold_sys::procfs::Proc::open(std::path::Path::new("/proc")).expect("proc");
    let since = |pid| proc.stat(pid).ok().flatten().map(|stat| (pid, stat.start_ticks));
    let running = || daemons(&host).into_iter().filter_map(since).collect::<Vec<_>>();
    let first = running();
    first.iter().for_each(|&(pid, _)| send(pid, Signal::KILL));
    eventually("another takes over", || match running().as_slice() {
        [another] if !first.contains(another) => Ok(()),
        found => Err(format!("{found:?}")),
    });
    host.make("go");
    let done = batch.wait();
    let view: pinfold_proto::view::BatchView =
        serde_json::from_str(&done.out).unwrap_or_else(|_| panic!("{done:?}"));
    assert_eq!((done.code, view.jobs, view.failed), (Some(1), 9, 9));
    let codes: Vec<_> = view.results.iter().map(|result| result.exit_code.expect("it ran")).collect();
    assert_eq!(codes, [3, 4, 4, 4, 4, 4, 4, 4, 4]);
    end_daemons(&host);
}

fn a_store_that_is_damaged(kind: Kind) {
    let mut host = Host::new(kind);
    host.succeeds(["run", "true"]);
    let store = || {
        let files =
            std::fs::read_dir(host.state()).expect("the state directory").flatten().map(|entry| entry.path());
        let sqlite = |path: &std::path::PathBuf| {
            std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"SQLite format 3"))
        };
        files.filter(sqlite).collect::<Vec<_>>()
    };
    let path = match store().as_slice() {
        [path] => path.clone(),
        other => panic!("one store, not {other:?}"),
    };
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 4] = [
        ("the middle overwritten", |bytes| {
            let length = bytes.len();
            bytes[100..length].fill(0x5a);
        }),
        ("truncated", |bytes| bytes.truncate(700)),
        ("no store at all", |bytes| *bytes = b"something else".repeat(1000)),
        ("empty but for a byte", |bytes| *bytes = vec![0]),
    ];
    for (name, damage) in damages {
        host.stop();
        let mut bytes = std::fs::read(&path).expect("the store");
        damage(&mut bytes);
        std::fs::write(&path, &bytes).expect("the damage");
        let before = std::fs::read_dir(host.state()).expect("the state directory").count();
        host.start_daemon();
        let done = host.pinfold(["run", "--", "/bin/sh", "-c", "exit 3"]);
        assert_eq!(done.code, Some(3), "{name}: {done:?}");
        assert!(done.err.contains("warning"), "{name}: it is said: {done:?}");
        let after = std::fs::read_dir(host.state()).expect("the state directory").count();
        assert!(after > before, "{name}: the damaged one is kept aside");
        let done = eventually(&format!("{name}: its end is known"), || {
            let done = host.pinfold(["status", "--all", "--json"]);
            if done.out.contains("\"exit_code\":3") { Ok(done) } else { Err(format!("{done:?}")) }
        });
        assert!(done.out.contains("the store was damaged"), "{name}: status says so: {done:?}");
    }
}

fn nothing_is_left_in_the_kernel(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=2"]);
    std::fs::write(host.work("lines"), "true\n".repeat(20)).expect("a file");
    host.succeeds(["batch", "--json", "lines"]);
    let job = host.submit(&[], "sleep 1000 & exec sleep 1000");
    host.until(job, JobState::Running);
    assert_eq!(host.job_groups().is_empty(), kind != Kind::Groups);
    host.succeeds(["cancel", "-s", "KILL", &job.to_string()]);
    host.until(job, JobState::Exited);
    // A few empty groups may wait for the next jobs, none in the unified hierarchy, where they would say nothing.
    let holds_any = |group: &std::path::PathBuf| {
        let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        !members.is_empty() || group.starts_with("/sys/fs/cgroup/unified")
    };
    eventually("nobody is left in any job's group, and few groups are", || {
        let left = host.job_groups();
        // In the hierarchies of cpu, cpuset, memory and pids.
        let few = left.len() <= 4 * 2 * std::thread::available_parallelism().map_or(1, usize::from);
        if few && !left.iter().any(holds_any) { Ok(()) } else { Err(format!("{left:?}")) }
    });
    host.stop();
    assert_eq!(host.groups(), Vec::<std::path::PathBuf>::new(), "nor the daemon's own");
}

/// Another program clears away empty groups, the daemon's own among them: it does not spin.
fn a_group_that_another_program_removed(kind: Kind) {
    let host = Host::new(kind);
    host.succeeds(["status"]);
    let mut removed = 0;
    for hierarchy in ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"] {
        let group = std::path::Path::new(hierarchy).join("pinfold").join(host.instance());
        removed += usize::from(std::fs::remove_dir(group).is_ok());
    }
    if removed == 0 {
        ignore!("this daemon has no group of the unified hierarchy");
    }
    let pid = host.daemon_pid();
    let proc = pinfold_sys::procfs::Proc::open(std::path::Path::new("/proc")).expect("proc");
    let ticks = || {
        let stat = proc.stat(pid).expect("stat").expect("it runs");
        stat.user_ticks + stat.system_ticks
    };
    // Two seconds and what the last command takes beyond them; a daemon that spins uses most of that. Others' processes, of
    // which the kernel tells it, can take some of it once.
    let mut seen = Vec::new();
    let rests = (0..3).any(|_| {
        let (before, started) = (ticks(), std::time::Instant::now());
        while started.elapsed() < std::time::Duration::from_secs(2) {
            host.succeeds(["status"]);
        }
        let used = ticks() - before;
        let passed = started.elapsed().as_secs_f64() * rustix::param::clock_ticks_per_second() as f64;
        seen.push((used, passed));
        (used as f64) < passed / 2.0
    });
    assert!(rests, "ticks used and passed: {seen:?}");
    eventually("it says so", || {
        let said = host.daemon_said();
        if said.contains("was removed by another program") { Ok(()) } else { Err(said) }
    });
}
