//! Layouts of jobs on machines that are not this one.

use clap::Parser as _;
use pinfold_topo::facts::Facts;

use super::*;
use crate::args::{Cli, Command};

/// Two sockets of four cores of two threads: PUs 0-7 and 8-15, siblings next to each other.
fn machine() -> Topology {
    let mut facts = Facts { pus: (0..16).map(PuOs).collect(), ..Facts::default() };
    facts.cores = (0..8).map(|core| [2 * core, 2 * core + 1].map(PuOs).into_iter().collect()).collect();
    facts.sockets = vec![(0..8).map(PuOs).collect(), (8..16).map(PuOs).collect()];
    facts.assemble().unwrap()
}

fn asked(options: &str) -> Result<Option<Asked>, Failure> {
    let words = ["pinfold", "run"].into_iter().chain(options.split_whitespace()).chain(["true"]);
    let cli = Cli::try_parse_from(words).unwrap();
    let Command::Run(args) = cli.command else { panic!("`run` was asked for") };
    Asked::of(&args.options)
}

fn laid(options: &str) -> Result<Laid, Failure> {
    asked(options)?.unwrap().on_topology(machine(), &machine().usable())
}

fn set(text: &str) -> CpuSet {
    text.parse().unwrap()
}

/// The tasks' bindings on the PUs `held`, as text; `*` is unbound.
fn bound(options: &str, held: &str) -> String {
    let laid = laid(options).unwrap();
    let text = |cpus: Option<CpuSet>| cpus.map_or_else(|| "*".to_owned(), |cpus| cpus.to_string());
    match laid.bindings(&set(held)) {
        Ok(bindings) => bindings.into_iter().map(text).collect::<Vec<String>>().join(" "),
        Err(why) => why,
    }
}

#[test]
fn who_says_nothing_has_no_layout() {
    assert!(asked("").unwrap().is_none());
    assert!(asked("--cores 3").unwrap().is_none());
}

#[test]
fn cores_follow_from_tasks_and_pus() {
    let cores = |options: &str| laid(options).unwrap().cores;
    assert_eq!(cores("-n 1"), 1);
    assert_eq!(cores("-n 4"), 2, "tasks share cores whose threads they use");
    assert_eq!(cores("-n 4 --hint nomultithread"), 4);
    assert_eq!(cores("-n 2 -c 3"), 3, "six threads");
    assert_eq!(cores("-n 2 --cores 5"), 5);
    assert_eq!(cores("-n 1 --cpu-bind mask_cpu:0x1100"), 2, "as many as the mask touches");
    assert_eq!(cores("-n 1 --exclusive"), 8);
    assert_eq!(cores("-n 40 -O"), 1, "they share what one has");
    assert_eq!(cores("-n 1 --exact --mincpus 16"), 1);
    assert!(laid("-n 40").is_err());
    assert!(laid("-n 1 --mincpus 17").is_err());
    assert!(laid("-n 1 --minsockets 3").is_err() && laid("-n 1 --mincores 5").is_err());
    assert!(laid("-n 1 --minsockets 2 --mincores 4 --minthreads 2").is_ok());
}

#[test]
fn tasks_lie_on_the_cores_that_the_job_has() {
    assert_eq!(bound("-n 2 --hint nomultithread", "4-5,10-11"), "4 10");
    assert_eq!(bound("-n 2 -c 2", "4-5,10-11"), "4-5 10-11");
    assert_eq!(bound("-n 4 -m block:block", "2-5"), "2 3 4 5");
    assert_eq!(bound("-n 2 --cpu-bind map_cpu:5,2", "2-5"), "5 2");
    assert_eq!(bound("-n 2 -c 2 --cpu-bind none", "2-5"), "2-5 2-5");
}

#[test]
fn on_a_host_that_pins_nobody_tasks_are_free() {
    assert_eq!(bound("-n 2 -c 2", "0-15"), "* *");
    assert_eq!(bound("-n 2 --cpu-bind map_cpu:5,2", "0-15"), "5 2", "unless they were named");
}

#[test]
fn on_too_few_cores_tasks_are_not_laid_out() {
    assert_eq!(bound("-n 2 -c 2", "4-5"), "* *", "they share what there is");
    let why = bound("-n 2 --cpu-bind map_cpu:5,2", "4-5");
    assert_eq!(why, "--cpu-bind names PUs outside of the job's, which are 4-5");
}

#[test]
fn tasks_know_themselves() {
    let laid = laid("-n 2 -c 2").unwrap();
    let starts = laid.starts(&set("4-5,10-11")).unwrap();
    let find = |task: usize, name: &str| {
        starts[task].variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    };
    assert_eq!(find(1, "PINFOLD_TASK_ID"), Some("1"));
    assert_eq!(find(1, "PINFOLD_NTASKS"), Some("2"));
    assert_eq!(find(1, "PINFOLD_TASK_CPUS"), Some("10-11"));
    if laid.sets_threads {
        assert_eq!(find(0, "OMP_NUM_THREADS"), Some("2"));
    }
}

#[test]
fn bad_input_names_the_option() {
    let check = |options: &str, code: ExitCode, word: &str| {
        let failure = match asked(options) {
            Ok(asked) => asked.unwrap().on_topology(machine(), &machine().usable()).unwrap_err(),
            Err(failure) => failure,
        };
        assert_eq!(failure.code, code, "{options}: {failure}");
        assert!(failure.message.contains(word), "{options}: {failure}");
    };
    check("-n 0", ExitCode::Usage, "--ntasks");
    check("--ntasks=-3", ExitCode::Usage, "--ntasks");
    check("-n 1 -c 0", ExitCode::Usage, "--cpus-per-task");
    check("-n 99", ExitCode::Refused, "--ntasks 99");
    check("-n 2 -N 2", ExitCode::Refused, "--nodes 2");
    check("-B 4:4:4", ExitCode::Refused, "--extra-node-info 4:4:4");
    check("--cpu-bind map_cpu:99", ExitCode::Usage, "--cpu-bind: jobs have no PU 99");
    check("--cpu-bind mask_cpu:0x0", ExitCode::Usage, "--cpu-bind");
    check("-n 3 --cpu-bind map_cpu:0,1", ExitCode::Usage, "--cpu-bind names 2");
    check("-n 2 --cores 1 -c 2", ExitCode::Usage, "--cores 1");
    check("--ntasks-per-core 2 --threads-per-core 1", ExitCode::Usage, "--ntasks-per-core");
    check("--hint fast", ExitCode::Usage, "--hint");
    check("-m wild", ExitCode::Usage, "--distribution");
}

#[test]
fn a_list_of_hosts_names_this_one_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hosts");
    std::fs::write(&file, "# mine\nhere\nhere*2\n").unwrap();
    let options = format!("-m arbitrary --nodefile {}", file.display());
    assert_eq!(laid(&options).unwrap().ntasks, 3);
    assert_eq!(laid("-m arbitrary -w here*2").unwrap().ntasks, 2);
    let error = laid("-m arbitrary -w here,there").unwrap_err().to_string();
    assert!(error.contains("`there` names a host beyond the 1 that there are"), "{error}");
    let error = asked("-m arbitrary --nodefile /nowhere/hosts").unwrap_err().to_string();
    assert!(error.contains("--nodefile: failed to read /nowhere/hosts"), "{error}");
    std::fs::write(&file, "# none\n").unwrap();
    let error = asked(&options).unwrap_err().to_string();
    assert!(error.contains("--nodefile: no host is named"), "{error}");
}
