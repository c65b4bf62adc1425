use super::*;
use tempfile::TempDir;

/// A directory that is trusted wherever the temporary directory is, and a script in it.
fn script(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("module");
    pinfold_testkit::executable(&path, &format!("#!/bin/sh\n{text}\n"));
    (dir, path)
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn call(program: &Path, limit: Duration) -> Call {
    Call {
        program: program.to_owned(),
        arguments: vec!["before".to_owned()],
        variables: vec![("PINFOLD_JOB_ID".to_owned(), "7".to_owned())],
        input: b"{\"job\":7}\n".to_vec(),
        limit,
    }
}

const LONG: Duration = Duration::from_secs(180);

#[track_caller]
fn check(text: &str, want: Result<&str, &str>) {
    let (_dir, path) = script(text);
    let got = run(&call(&path, LONG)).map_err(|error| error.to_string());
    let name = format!("{} ", path.display());
    let got = got.map_err(|error| error.replace(&name, ""));
    assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned), "{text}");
}

#[test]
fn it_is_told_of_the_job_and_heard() {
    check("echo $1 $PINFOLD_JOB_ID; cat; umask; pwd", Ok("before 7\n{\"job\":7}\n0022\n/\n"));
    check("echo ${HOME-none} ${CARGO-none}", Ok("none none\n"));
    check("echo no >&2; exit 3", Err("ended with exit code 3: no"));
    check("echo 'the licence  is\nused up'; exit 1", Err("ended with exit code 1: the licence is used up"));
    check("exit 2", Err("ended with exit code 2"));
    check("kill -KILL $$", Err("was ended by signal KILL"));
    check(
        "kill -0 $$; head -c 1000000 /dev/zero | tr '\\0' x; exit 1",
        Err(&format!("ended with exit code 1: {}", "x".repeat(WORDS_MAX_CHARS))),
    );
}

#[test]
fn processes_left_running_are_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    // The remaining process waits for this file's close, and must not have it open itself.
    let _writer = rustix::fs::open(&fifo, OFlags::RDWR | OFlags::CLOEXEC, rustix::fs::Mode::empty()).unwrap();
    check(&format!("exec 3<{0}; (read x <&3) & echo left", fifo.display()), Ok("left\n"));
}

#[test]
fn it_is_killed_when_it_takes_too_long() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let (_dir, path) = script(&format!("echo waits >&2; read x <{}", fifo.display()));
    // On a busy machine it may be killed before it comes to say anything: then it has more time.
    let mut killed = (0..8).map(|doubled| {
        let limit = Duration::from_millis(300u64 << doubled);
        let error = run(&call(&path, limit)).unwrap_err();
        let SiteError::TooLong { said, .. } = &error else { panic!("{error}") };
        (limit, said.clone(), error.to_string())
    });
    let (limit, said, error) = killed.find(|(_, said, _)| !said.is_empty()).expect("it says something");
    assert_eq!(said, ": waits");
    assert!(error.ends_with(&format!("did not end within {limit:?}: waits")), "{error}");
}

#[test]
fn a_program_writable_for_others_is_not_run() {
    let (dir, path) = script("echo ran");
    let refused = |path: &Path, why: &str| {
        let error = run(&call(path, LONG)).unwrap_err();
        assert!(error.never_ran(), "{error}");
        assert!(matches!(error, SiteError::Untrusted { .. }) && error.to_string().contains(why), "{error}");
    };
    for open in [0o775, 0o757] {
        mode(&path, open);
        refused(&path, "can be written by others");
    }
    mode(&path, 0o644);
    refused(&path, "is not executable");
    mode(&path, 0o755);
    refused(dir.path(), "is not executable");
    refused(Path::new("module"), "no absolute path");
    mode(dir.path(), 0o770);
    refused(&path, "can be written by others");
    mode(dir.path(), 0o1777);
    assert_eq!(run(&call(&path, LONG)).unwrap(), "ran\n", "nobody can put another in its place");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(run(&call(&link, LONG)).unwrap(), "ran\n");
    let gone = run(&call(&dir.path().join("gone"), LONG)).unwrap_err();
    assert!(gone.to_string().starts_with("failed to look at ") && gone.never_ran(), "{gone}");
    let no_program = dir.path().join("no-program");
    pinfold_testkit::executable(&no_program, "#!/nonexistent/interpreter\n");
    let unstarted = run(&call(&no_program, LONG)).unwrap_err();
    assert!(unstarted.to_string().starts_with("failed to start ") && unstarted.never_ran(), "{unstarted}");
    pinfold_testkit::executable(&no_program, "#!/bin/sh\nexit 1\n");
    assert!(!run(&call(&no_program, LONG)).unwrap_err().never_ran(), "it said no");
    if peer::own_uid() == 0 {
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        refused(&path, "belongs to another user");
        refused(&link, "belongs to another user");
    }
}
