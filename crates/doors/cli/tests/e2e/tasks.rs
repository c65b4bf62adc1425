//! Jobs of several tasks: each where the layout wants it, by the kernel's own word, and all of them one job.

use pinfold_proto::{JobPlace, JobState};
use pinfold_testkit::ignore;
use pinfold_topo::CpuSet;
use rustix::process::Signal;
use serde_json::Value;

use crate::host::{Host, said};
use crate::kind::{Kind, tests};
use crate::wait::eventually;

tests! {
    Each: tasks_are_bound_as_planned, signals_reach_every_task, bindings_follow_the_job;
    Best: a_step_inside_a_job, a_job_on_named_cores_waits_for_them,
        launchers_beside_each_other_have_different_cores, three_kinds_of_user, the_worst_status_counts,
        a_submitted_job_and_a_batch, bad_layouts_start_nothing, how_cores_lie_is_said_once;
}

/// Writes down what a task knows of itself, and what the kernel says it may use.
const TELL: &str = "echo \"$PINFOLD_CPUS $PINFOLD_TASK_ID $PINFOLD_NTASKS ${PINFOLD_TASK_CPUS:--} ${OMP_NUM_THREADS:--} \
                    $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)\" >told.$PINFOLD_TASK_ID";

/// What one task told.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    job_cpus: String,
    task: String,
    ntasks: String,
    task_cpus: String,
    threads: String,
    mask: String,
}

fn told(host: &Host, task: usize) -> Told {
    let text = host.wrote(&format!("told.{task}"));
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let [job_cpus, task, ntasks, task_cpus, threads, mask] =
        words.try_into().unwrap_or_else(|words| panic!("task {task} told {words:?}"));
    Told { job_cpus, task, ntasks, task_cpus, threads, mask }
}

/// The PUs that jobs may use on this host.
fn usable(host: &Host) -> Vec<u64> {
    let done = host.pinfold(["topology", "--json"]);
    let value: Value = serde_json::from_str(&done.out).expect("the topology is JSON");
    let pus = value["pu"].as_array().expect("a list").iter();
    let mut usable: Vec<u64> =
        pus.filter(|pu| pu["usable"] == true).map(|pu| pu["os"].as_u64().expect("a number")).collect();
    usable.sort_unstable();
    usable
}

/// Two PUs on cores of their own; a test is ignored where this host has none.
pub(crate) fn two_cores(host: &Host) -> [u64; 2] {
    let done = host.pinfold(["topology", "--json"]);
    let value: Value = serde_json::from_str(&done.out).expect("the topology is JSON");
    let usable = usable(host);
    if value["cores"].as_u64().is_some_and(|cores| cores >= 2)
        && value["cores"] == value["pus"]
        && usable.len() >= 2
    {
        return [usable[0], usable[1]];
    }
    ignore!("this host has no two cores of one PU each")
}

/// What `pinfold layout` plans for these options on these PUs.
fn planned(host: &Host, options: &[&str], free: &str) -> Vec<String> {
    let done = host.pinfold([&["layout", "--json", "--free", free], options].concat());
    assert_eq!(done.code, Some(0), "{options:?} on {free}: {done:?}");
    let value: Value = serde_json::from_str(&done.out).expect("the layout is JSON");
    let tasks = value["tasks"].as_array().expect("a list").iter();
    tasks.map(|task| task["cpus"].as_str().unwrap_or(free).to_owned()).collect()
}

fn run(host: &Host, options: &[&str], script: &str) -> crate::process::Done {
    host.pinfold([&["run"], options, &["--", "/bin/sh", "-c", script]].concat())
}

fn three_kinds_of_user(kind: Kind) {
    let host = Host::new(kind);
    // Nothing said: one process on the job's core.
    assert_eq!(run(&host, &[], TELL).code, Some(0));
    let plain = told(&host, 0);
    assert_eq!((plain.task.as_str(), plain.ntasks.as_str()), ("0", "1"));
    assert_eq!(plain.mask, plain.job_cpus);
    assert_eq!(plain.task_cpus, "-", "nothing was laid out: {plain:?}");
    // A hint.
    let [first, second] = two_cores(&host);
    assert_eq!(run(&host, &["-n", "2", "--hint", "compute_bound"], TELL).code, Some(0));
    let (one, other) = (told(&host, 0), told(&host, 1));
    assert_ne!(one.mask, other.mask);
    assert_eq!((one.threads.as_str(), one.ntasks.as_str()), ("1", "2"));
    // An explicit mask, the wrong way round.
    let bind = format!("--cpu-bind=map_cpu:{second},{first}");
    assert_eq!(run(&host, &["-n", "2", &bind], TELL).code, Some(0));
    assert_eq!((told(&host, 0).mask, told(&host, 1).mask), (second.to_string(), first.to_string()));
    // One task on the second core, which is not the one that a job gets by itself.
    let bind = format!("--cpu-bind=mask_cpu:{:#x}", 1u64 << second);
    assert_eq!(run(&host, &[&bind], TELL).code, Some(0));
    assert_eq!((told(&host, 0).mask, told(&host, 0).job_cpus), (second.to_string(), second.to_string()));
}

fn tasks_are_bound_as_planned(kind: Kind) {
    let host = Host::new(kind);
    two_cores(&host);
    let cases: [&[&str]; 8] = [
        &["-n", "2"],
        &["-n", "1", "-c", "2"],
        &["-n", "2", "-m", "block:cyclic"],
        &["-n", "2", "--cpu-bind", "none"],
        &["-n", "2", "--cpu-bind", "sockets"],
        &["-n", "2", "--hint", "nomultithread"],
        &["-n", "2", "--ntasks-per-core", "1"],
        &["--ntasks-per-node", "2", "-B", "1:1"],
    ];
    for options in cases {
        assert_eq!(run(&host, options, TELL).code, Some(0), "{options:?}");
        let plan = planned(&host, options, &told(&host, 0).job_cpus);
        for (task, cpus) in plan.iter().enumerate() {
            let told = told(&host, task);
            assert_eq!((&told.mask, &told.task_cpus), (cpus, cpus), "{options:?}: {told:?}");
            assert_eq!((told.task, told.ntasks), (task.to_string(), plan.len().to_string()));
        }
    }
    // What is in the environment already is the user's.
    let done = host.shell(&format!(
        "OMP_NUM_THREADS=7 pinfold run -n 2 -- /bin/sh -c '{}'",
        TELL.replace('\'', "'\\''")
    ));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(told(&host, 1).threads, "7");
    // Options come from the environment, so that a batch script can carry them.
    let done =
        host.shell("PINFOLD_NTASKS=2 pinfold run -- sh -c 'echo $PINFOLD_TASK_ID' | sort | tr '\\n' ' '");
    assert_eq!(done.out, "0 1 ", "{done:?}");
}

fn the_worst_status_counts(kind: Kind) {
    let host = Host::new(kind);
    two_cores(&host);
    let done = run(&host, &["-n", "2"], "exit $((3 + 4 * PINFOLD_TASK_ID))");
    assert_eq!(done.code, Some(7), "{done:?}");
    let done = run(&host, &["-n", "2"], "[ $PINFOLD_TASK_ID = 1 ] || kill -TERM $$; exit 2");
    assert_eq!(done.code, Some(143), "{done:?}");
    // A busy daemon has its end on record later than the command returns.
    let view = host.until(2, JobState::Exited);
    assert_eq!((view.exit_code, view.signal), (None, Some(15)));
    let done = host.pinfold(["run", "-n", "2", "--", "/no/such/program"]);
    assert_eq!(done.code, Some(127), "{done:?}");
    assert_eq!(run(&host, &["-n", "2"], "true").code, Some(0));
    // One program reads what the job is given; the others see its end at once.
    let done = host
        .shell("echo word | pinfold run -n 2 -- sh -c 'echo $PINFOLD_TASK_ID:$(cat)' | sort | tr '\\n' ' '");
    assert_eq!(done.out, "0:word 1: ", "{done:?}");
}

fn signals_reach_every_task(kind: Kind) {
    let host = Host::new(kind);
    two_cores(&host);
    let script = "trap 'echo heard >>heard.$PINFOLD_TASK_ID; exit 9' USR1; : >ready.$PINFOLD_TASK_ID; \
                  while :; do sleep 0.05; done";
    let running = host.start(["run", "-n", "2", "--", "/bin/sh", "-c", script]);
    host.until_made("ready.0");
    host.until_made("ready.1");
    running.signal(Signal::USR1);
    let done = running.wait();
    assert_eq!(done.code, Some(9), "{done:?}");
    assert_eq!((host.wrote("heard.0"), host.wrote("heard.1")), ("heard\n".to_owned(), "heard\n".to_owned()));
    // Frozen, thawed and cancelled, they are one job.
    let job = host.submit(&["-n", "2"], "while :; do sleep 0.05; done");
    eventually("both tasks run", || {
        let pids = host.job(job).pids.len();
        if pids >= 3 { Ok(()) } else { Err(pids.to_string()) }
    });
    {
        let _frozen = crate::wait::no_rescue();
        host.succeeds(["suspend", &job.to_string()]);
        host.until(job, JobState::Frozen);
        host.succeeds(["resume", &job.to_string()]);
        host.until(job, JobState::Running);
    }
    host.succeeds(["cancel", &job.to_string()]);
    assert_eq!(host.until(job, JobState::Exited).signal, Some(15));
}

fn a_submitted_job_and_a_batch(kind: Kind) {
    let host = Host::new(kind);
    two_cores(&host);
    let job = host.submit(&["-n", "2"], TELL);
    assert_eq!(host.until(job, JobState::Exited).exit_code, Some(0));
    let plan = planned(&host, &["-n", "2"], &told(&host, 0).job_cpus);
    assert_eq!([told(&host, 0).mask, told(&host, 1).mask].as_slice(), plan.as_slice());
    std::fs::write(host.work("list"), "echo a >>a.$PINFOLD_TASK_ID\nexit $PINFOLD_TASK_ID\n")
        .expect("a list");
    let done = host.pinfold(["batch", "--ntasks", "2", "--json", "list"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let value: Value = serde_json::from_str(&done.out).expect("the results are JSON");
    assert_eq!(
        (&value["results"][0]["exit_code"], &value["results"][1]["exit_code"]),
        (&0.into(), &1.into())
    );
    assert_eq!((host.wrote("a.0"), host.wrote("a.1")), ("a\n".to_owned(), "a\n".to_owned()));
}

fn a_step_inside_a_job(kind: Kind) {
    let host = Host::new(kind);
    two_cores(&host);
    let script =
        format!("echo $PINFOLD_CPUS >cpus; pinfold run -n 2 -- /bin/sh -c '{}'", TELL.replace('\'', "'\\''"));
    let done = run(&host, &["-c", "2"], &script);
    assert_eq!(done.code, Some(0), "{done:?}");
    let plan = planned(&host, &["-n", "2"], host.wrote("cpus").trim());
    assert_eq!([told(&host, 0).mask, told(&host, 1).mask].as_slice(), plan.as_slice());
}

fn bad_layouts_start_nothing(kind: Kind) {
    let host = Host::new(kind);
    let cases: [(&[&'static str], i32, &str); 17] = [
        (&["-n", "0"], 2, "--ntasks does not take `0`, but a whole number"),
        (&["-n", "-1"], 2, "--ntasks does not take `-1`"),
        (&["-c", "-2"], 2, "--cpus-per-task does not take `-2`"),
        (&["--cores", "-1"], 2, "`-1` is not a whole number from 1 to 65536"),
        (&["--mem", "-5"], 2, "`-5` is not a size"),
        (&["--ntasks=-1"], 2, "--ntasks"),
        (&["-n", "many"], 2, "--ntasks"),
        (&["-c", "0"], 2, "--cpus-per-task"),
        (&["-n", "1", "-c", "70000"], 5, "--cpus-per-task 70000"),
        (&["-N", "2", "-n", "2"], 5, "--nodes 2"),
        (&["-B", "0:1"], 2, "--extra-node-info"),
        (&["--cpu-bind", "map_cpu:60000"], 2, "--cpu-bind"),
        (&["--cpu-bind", "mask_cpu:0x0"], 2, "--cpu-bind"),
        (&["--ntasks-per-core", "2", "--threads-per-core", "1"], 2, "--ntasks-per-core"),
        (&["-m", "wild"], 2, "--distribution"),
        (&["--hint", "quick"], 2, "--hint"),
        (&["-n", "2", "--cpu-bind", "map_cpu:0"], 2, "--cpu-bind"),
    ];
    std::fs::write(host.work("list"), ": >started\n").expect("a list");
    for (options, code, word) in cases {
        if options.contains(&"map_cpu:0") {
            two_cores(&host);
        }
        for (verb, command) in
            [("run", &["touch", "started"][..]), ("submit", &["touch", "started"]), ("batch", &["list"])]
        {
            // These letters have GNU parallel's meaning there.
            let named = |option: &&'static str| match (verb, *option) {
                ("batch", "-n") => "--ntasks",
                ("batch", "-N") => "--nodes",
                ("batch", "-B") => "--extra-node-info",
                ("batch", "-m") => "--distribution",
                (_, option) => option,
            };
            let options: Vec<&str> = options.iter().map(named).collect();
            let done = host.pinfold([&[verb], &options[..], command].concat());
            assert_eq!(done.code, Some(code), "{verb} {options:?}: {done:?}");
            assert!(done.err.contains(word), "{verb} {options:?}: {done:?}");
        }
    }
    assert!(host.status(&[]).jobs.is_empty());
    assert!(!host.work("started").exists());
}

fn bindings_follow_the_job(kind: Kind) {
    let host = Host::new(kind);
    let [first, second] = two_cores(&host);
    let script = "echo $$ >pid.$PINFOLD_TASK_ID; while :; do sleep 0.05; done";
    let job = host.submit(&["-n", "2"], script);
    let masks = || {
        let mask = |task: usize| {
            let pid = host.wrote(&format!("pid.{task}")).trim().parse().ok()?;
            crate::host::status_field(pid, "Cpus_allowed_list")
        };
        (mask(0), mask(1))
    };
    let (first, second) = (first.to_string(), second.to_string());
    let until = |what: &str, one: &str, other: &str| {
        eventually(what, || {
            let seen = masks();
            if seen == (Some(one.to_owned()), Some(other.to_owned())) {
                Ok(())
            } else {
                Err(format!("{seen:?}"))
            }
        });
    };
    until("each has a core", &first, &second);
    host.succeeds(["config", "set", &format!("host.cpus=\"{second}\"")]);
    until("they share what is left", &second, &second);
    host.succeeds(["config", "set", &format!("host.cpus=\"{first},{second}\"")]);
    until("each has a core again", &first, &second);
    host.succeeds(["cancel", "--signal", "KILL", &job.to_string()]);
    host.until(job, JobState::Exited);
}

fn a_job_on_named_cores_waits_for_them(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1"]);
    let [_, second] = two_cores(&host);
    let bind = format!("--cpu-bind=map_cpu:{second}");
    let wait = "until [ -e go ]; do sleep 0.05; done";
    let one = host.submit(&[&bind], wait);
    assert_eq!(host.until(one, JobState::Running).cpus, Some(second.to_string()));
    // The other core is free, and not what it asks for.
    let other = host.submit(&["--primary", &bind], TELL);
    let plain = host.pinfold(["run", "--", "true"]);
    assert_eq!(plain.code, Some(0), "another job takes the free core: {plain:?}");
    assert_eq!(host.job(other).state, JobState::Queued);
    host.make("go");
    assert_eq!(host.until(other, JobState::Exited).exit_code, Some(0));
    assert_eq!(told(&host, 0).mask, second.to_string());
}

/// `mpirun` inside a job finds the job's PUs and binds its ranks within them; two at once do not meet.
fn launchers_beside_each_other_have_different_cores(kind: Kind) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|directory| directory.join("mpirun").is_file()) {
        ignore!("mpirun is not installed (Debian: openmpi-bin)");
    }
    let host = Host::new(kind);
    two_cores(&host);
    let ranks = (usable(&host).len() / 2).min(2);
    let script = "told=launched.$PINFOLD_JOB_ID.$OMPI_COMM_WORLD_RANK; \
                  sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status >$told.new; \
                  mv $told.new $told; until [ -e both ]; do sleep 0.02; done";
    let count = ranks.to_string();
    let submit = || {
        // Each with a directory of its own: below /tmp all that Open MPI starts for a user share one, which the last to end
        // removes, maybe while another one makes its own in it.
        let launch = format!(
            "mkdir t$PINFOLD_JOB_ID; export TMPDIR=$PWD/t$PINFOLD_JOB_ID; \
             OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n {count} sh -c '{}'",
            script.replace('\'', "'\\''")
        );
        host.submit(&["-n", "1", "-c", &count], &launch)
    };
    let jobs = [submit(), submit()];
    let masks = jobs.map(|job| -> Vec<CpuSet> {
        let mask = |rank| {
            let name = format!("launched.{job}.{rank}");
            eventually(&format!("{name} is made"), || {
                let view = host.job(job);
                assert_ne!(
                    view.state,
                    JobState::Exited,
                    "{}: {view:?}",
                    said(&host, &["log", &job.to_string()], 0)
                );
                host.work(&name).exists().then_some(()).ok_or("not there")
            });
            host.wrote(&name).trim().parse().expect("a list of PUs")
        };
        (0..ranks).map(mask).collect()
    });
    for (job, masks) in jobs.iter().zip(&masks) {
        let cpus: CpuSet = host.job(*job).cpus.expect("it runs").parse().expect("a list of PUs");
        for mask in masks {
            assert!(
                !mask.is_empty() && mask.is_subset(&cpus),
                "a rank of job {job} on {mask}, the job on {cpus}"
            );
        }
    }
    let [one, other] = masks.map(|masks| masks.iter().fold(CpuSet::new(), |all, mask| all.union(mask)));
    assert!(one.is_disjoint(&other), "the jobs' ranks are on {one} and {other}");
    host.make("both");
    for job in jobs {
        host.until_exit_code(job, 0);
    }
}

/// Whether they really lie so is read back on an emulated host: this one may have a single cache.
fn how_cores_lie_is_said_once(kind: Kind) {
    let host = Host::new(kind);
    let [first, _] = two_cores(&host);
    let map = format!("map_cpu:{first}");
    let rows: [(&[&str], i32, &str); 6] = [
        (&["--place", "sideways"], 2, "possible values: auto, compact, spread"),
        (&["--place", "spread", "--isolated"], 2, "cannot be used with"),
        (&["--place", "compact", "--exclusive"], 2, "cannot be used with"),
        (&["--place", "spread", "--cpu-bind", &map], 2, "both say where its cores lie"),
        (&["--place", "compact", "-n", "2", "-m", "block:cyclic"], 2, "--distribution both say"),
        (&["--place", "spread", "--cores", "5000"], 5, "5000 cores"),
    ];
    for (options, code, said) in rows {
        let done = host.pinfold([&["run"], options, &["--", "touch", "ran"]].concat());
        assert!(done.code == Some(code) && done.err.contains(said), "{options:?}: {done:?}");
    }
    assert!(!host.work("ran").exists());
    let bad = host.pinfold(["config", "set", "cpu.place=sideways"]);
    assert!(bad.code == Some(2) && bad.err.contains("`auto`, `compact` or `spread`"), "{bad:?}");
    let set = host.pinfold(["config", "set", "cpu.place=spread"]);
    assert!(set.code == Some(0), "{set:?}");
    for place in ["compact", "spread", "auto"] {
        let done =
            host.pinfold(["run", "--cores", "2", "--place", place, "--", "sh", "-c", "echo $PINFOLD_CPUS"]);
        assert!(
            done.code == Some(0) && done.out.trim().parse::<CpuSet>().is_ok_and(|cpus| cpus.len() >= 2),
            "{done:?}"
        );
    }
    let job = host.submit(&["--cores", "2", "--place", "spread"], "until [ -e go ]; do sleep 0.05; done");
    let view = host.until(job, JobState::Running);
    let topology: Value = serde_json::from_str(&host.pinfold(["topology", "--json"]).out).expect("JSON");
    let domains = ["l3", "numa_nodes", "sockets"].map(|name| topology[name].as_u64().expect("a number"));
    match view.place {
        Some(place) => assert!(place.lies == JobPlace::Spread && place.domains >= 1, "{place:?}"),
        None => assert!(domains.iter().all(|&count| count <= 1), "nothing to choose with {domains:?}"),
    }
    host.make("go");
    host.until_exit_code(job, 0);
}
