//! `pinfold batch` for users of GNU parallel: the same words have the same meaning.

use std::os::unix::fs::PermissionsExt as _;

use crate::host::Host;
use crate::kind::{Kind, tests};

tests! {
    Best: lines_know_their_slots, arguments_are_grouped_named_and_shuffled, outputs_are_a_tree,
        a_silent_batch_tells_of_failures_alone, few_open_files_are_enough_and_jobs_keep_their_limit,
        words_that_are_not_there_get_advice;
}

fn lines_know_their_slots(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=3"]);
    let text = "echo {%} $PINFOLD_SLOT {}";
    let done = host.pinfold(["batch", "-j", "1", "-k", text, ":::", "a", "{%}"]);
    assert_eq!((done.code, &done.out[..]), (Some(0), "1 1 a\n1 1 {%}\n"), "{done:?}");
    // Both run at once.
    let text = "touch {}; until [ -e a -a -e b ]; do sleep 0.02; done; echo {%} $PINFOLD_SLOT";
    let done = host.pinfold(["batch", "-j", "2", text, ":::", "a", "b"]);
    assert!(["1 1\n2 2\n", "2 2\n1 1\n"].contains(&&done.out[..]), "{done:?}");
    // A line that needs no shell has the variable as well.
    host.make("script");
    std::fs::write(host.work("script"), "#!/bin/sh\necho $PINFOLD_SLOT\n").expect("a script");
    std::fs::set_permissions(host.work("script"), std::fs::Permissions::from_mode(0o755)).expect("its owner");
    let done = host.pinfold(["batch", "-j", "1", "./script {}", ":::", "a", "b"]);
    assert_eq!((done.code, &done.out[..]), (Some(0), "1\n1\n"), "{done:?}");
}

fn arguments_are_grouped_named_and_shuffled(kind: Kind) {
    let host = Host::new(kind);
    let shown = |text: &str, want: &str| {
        let done = host.shell(text);
        assert_eq!((done.code, &done.out[..]), (Some(0), want), "{text}: {done:?}");
    };
    shown("seq 3 | pinfold batch -k -N2 'echo x{}y {1}-{2}'", "x1y x2y 1-2\nx3y 3-\n");
    shown("seq 3 | pinfold batch -k -n0 echo hi", "hi\nhi\nhi\n");
    shown("seq 5 | pinfold batch -k -j2 -m 'echo x{}y {#}'", "x1 2 3y 1\nx4 5y 2\n");
    shown("pinfold batch -k -j2 -X 'echo x{}y' ::: 1 2 3", "x1y x2y\nx3y\n");
    shown("seq 40000 | pinfold batch -j1 --dry-run -m true | tr -d -c '0-9 ' | wc -w", "40000\n");
    shown("printf 'n m\na 1\nb 2\n' | pinfold batch -k --header : -C ' ' 'echo {m} {n}'", "1 a\n2 b\n");
    shown("pinfold batch -k --header : 'echo {x}{y.}' ::: x a b ::: y 1.c", "a1\nb1\n");
    shown("printf 'a\n\n \nb' | pinfold batch -k -r 'echo [{}]'", "[a]\n[b]\n");
    shown("printf 'a\\0b c\\0' | pinfold batch -k -0 echo", "a\nb c\n");
    shown("seq 50 | pinfold batch --shuf echo | sort -n | md5sum", &host.shell("seq 50 | md5sum").out);
    let shuffled = || host.shell("seq 50 | pinfold batch --dry-run --shuf echo").out;
    assert!((0..3).any(|_| shuffled() != shuffled()), "50 numbers are never in the same order three times");
    let refused = |text: &str, want: &str| {
        let done = host.shell(text);
        assert!(done.code == Some(2) && done.err.contains(want), "{text}: {done:?}");
    };
    refused("echo true | pinfold batch -n 2 -", "-n, -m, -X, --shuf and --results are for arguments");
    refused("pinfold batch -m echo ::: a ::: b", "one list");
    refused("pinfold batch 'echo {= $_++ =}' ::: a", "`{=`");
}

fn outputs_are_a_tree(kind: Kind) {
    let host = Host::new(kind);
    let text = "pinfold batch -k --results out 'echo {2}; echo {1} >&2' ::: a ../b .. ::: 1 && \
                cd out && find . -type f -exec grep -H '' '{}' + | sort";
    let done = host.shell(text);
    let want = "./1/..\\_b/2/1/seq:2\n./1/..\\_b/2/1/stderr:../b\n./1/..\\_b/2/1/stdout:1\n\
                ./1/\\../2/1/seq:3\n./1/\\../2/1/stderr:..\n./1/\\../2/1/stdout:1\n\
                ./1/a/2/1/seq:1\n./1/a/2/1/stderr:a\n./1/a/2/1/stdout:1\n";
    assert_eq!((done.code, &done.out[..]), (Some(0), want), "{done:?}");
}

fn a_silent_batch_tells_of_failures_alone(kind: Kind) {
    let host = Host::new(kind);
    let done = host.pinfold(["batch", "--silent", "echo {}", ":::", "1"]);
    assert_eq!((done.code, &done.out[..], &done.err[..]), (Some(0), "1\n", ""), "{done:?}");
    let done = host.pinfold(["batch", "-q", "exit {}", ":::", "3"]);
    assert!(done.code == Some(1) && done.err.contains("line 1 failed: exit 3"), "{done:?}");
    for argument in ["1", "2"] {
        let done = host.pinfold(["batch", "-q", "--joblog", "+log", "true", ":::", argument]);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    assert_eq!(host.wrote("log").lines().count(), 3, "one head and two lines: {}", host.wrote("log"));
    let done = host.pinfold(["batch", "--eta", "true {}", ":::", "1", "2"]);
    assert!(done.code == Some(0) && done.err.contains("/2 done, "), "{done:?}");
}

fn few_open_files_are_enough_and_jobs_keep_their_limit(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=4"]);
    let text = "echo $(ulimit -Sn) $(ulimit -Hn)";
    // What hard limit there is: raised to, or kept to.
    for hard in [400, 32] {
        let done = host.shell(&format!(
            "ulimit -Sn 32; ulimit -Hn {hard}; seq 60 | pinfold batch '{text} {{}}' | sort -n -k3"
        ));
        let want: String = (1..=60).map(|line| format!("32 {hard} {line}\n")).collect();
        assert_eq!((done.code, &done.out[..]), (Some(0), &want[..]), "{done:?}");
    }
    let done = host.shell(&format!("ulimit -Sn 64; ulimit -Hn 400; pinfold run -- sh -c '{text}'"));
    assert_eq!((done.code, &done.out[..]), (Some(0), "64 400\n"), "{done:?}");
    let done = host.shell(&format!(
        "ulimit -Sn 64; ulimit -Hn 400; pinfold submit -o out.%a --array 1-2 -- sh -c '{text}'"
    ));
    let job = done.out.trim().to_owned();
    assert_eq!(host.pinfold(["wait", &job]).code, Some(0), "{done:?}");
    assert_eq!(host.wrote("out.1") + &host.wrote("out.2"), "64 400\n64 400\n");
}

fn words_that_are_not_there_get_advice(kind: Kind) {
    let host = Host::new(kind);
    for (words, want) in [
        (&["--nice", "3"][..], "--backfill"),
        (&["--pipe"], "split"),
        (&["--sshlogin=a"], "this host"),
        (&["-B", "x"], "this host"),
        (&["-I,,"], "fixed names"),
    ] {
        let done = host.pinfold([&["batch"], words, &["echo", ":::", "a"]].concat());
        assert!(done.code == Some(2) && done.err.contains(want), "{words:?}: {done:?}");
        assert!(!done.err.contains("similar"), "{done:?}");
    }
    // Slurm's letters have their names.
    let done = host.pinfold(["batch", "-k", "--ntasks", "2", "echo {}", ":::", "a"]);
    assert_eq!((done.code, &done.out[..]), (Some(0), "a\na\n"), "{done:?}");
}
