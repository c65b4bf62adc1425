//! What scripts read: the JSON of each command, by the keys that they rely on, and the configuration.

use pinfold_proto::JobState;
use serde_json::Value;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::eventually;

tests! {
    Best: status_keys, report_keys, why_a_job_waits, doctor, configuration, configuration_files,
        wrong_usage, the_last_jobs_without_a_word, filters, the_machine, the_map, standard_output_is_closed;
}

fn json(host: &Host, arguments: &[&str]) -> Value {
    let done = host.pinfold(arguments);
    assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
    let value: Value = serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    assert_eq!(value["version"], 1, "{arguments:?}");
    value
}

#[track_caller]
fn has_keys(value: &Value, keys: &str) {
    let object = value.as_object().unwrap_or_else(|| panic!("an object, not {value}"));
    let missing: Vec<&str> = keys.split_whitespace().filter(|key| !object.contains_key(*key)).collect();
    assert!(missing.is_empty(), "{missing:?} missing in {value}");
}

fn status_keys(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=2"]);
    let job = host.submit(&["--name", "shown", "--priority", "9"], "until [ -e go ]; do sleep 0.05; done");
    host.until(job, JobState::Running);
    let value = json(&host, &["status", "--json"]);
    has_keys(&value, "version host mode slots memory jobs");
    has_keys(&value["slots"], "cores factor total used");
    has_keys(&value["memory"], "budget_bytes held_bytes swap_held_bytes pressure_full_avg10");
    has_keys(
        &value["jobs"][0],
        "job name user project state class priority cpus memory_bytes swap_bytes pids submitted_s started_s ended_s \
         exit_code signal reason",
    );
    let shown = &value["jobs"][0];
    assert_eq!(
        (&shown["name"], &shown["priority"], &shown["state"]),
        (&"shown".into(), &9.into(), &"running".into())
    );
    for absent in ["project", "ended_s", "exit_code", "signal"] {
        assert!(shown[absent].is_null(), "{absent} is absent: {shown}");
    }
    assert!(value["memory"]["budget_bytes"].as_u64() > Some(0));
    let slots = &value["slots"];
    assert_eq!(slots["total"].as_u64(), slots["cores"].as_u64().map(|cores| cores * 2));
    assert_eq!(slots["used"], 1);
    let expected = match kind {
        Kind::Groups => ["v2", "hybrid"].as_slice(),
        Kind::Rootless | Kind::Nobody => &["rootless"],
    };
    assert!(expected.iter().any(|mode| value["mode"] == **mode), "{}", value["mode"]);
    host.make("go");
    host.until(job, JobState::Exited);
    assert_eq!(json(&host, &["status", "--json"])["jobs"], Value::Array(Vec::new()));
    let over = &json(&host, &["status", "--all", "--json"])["jobs"][0];
    assert_eq!((&over["state"], &over["exit_code"]), (&"exited".into(), &0.into()));
    assert!(over["ended_s"].as_f64() >= over["started_s"].as_f64());
    assert!(over["started_s"].as_f64() >= over["submitted_s"].as_f64());
}

fn report_keys(kind: Kind) {
    let host = Host::new(kind);
    assert_eq!(host.pinfold(["run", "--", "/bin/sh", "-c", "exit 2"]).code, Some(2));
    assert_eq!(host.pinfold(["run", "--", "/bin/sh", "-c", "kill -9 $$"]).code, Some(137));
    // A busy daemon has their ends on record later than the commands return.
    (1..=2).for_each(|job| drop(host.until(job, JobState::Exited)));
    let value = json(&host, &["report", "--json", "1"]);
    has_keys(
        &value,
        "version job command user exit_code signal queued_s wall_s suspended_s cpu_user_s cpu_system_s memory_peak_bytes \
         memory_mean_bytes cache_peak_bytes swap_peak_bytes virtual_peak_bytes io_read_bytes io_write_bytes \
         processes_total processes_peak threads_peak samples",
    );
    assert_eq!(value["command"], serde_json::json!(["/bin/sh", "-c", "exit 2"]));
    assert_eq!((&value["exit_code"], &value["signal"]), (&2.into(), &Value::Null));
    let lines = |arguments: &[&str]| -> Vec<u64> {
        let done = host.pinfold(arguments);
        assert_eq!(done.code, Some(0), "{done:?}");
        let job = |line: &str| {
            serde_json::from_str::<Value>(line).expect("JSON")["job"].as_u64().expect("a number")
        };
        done.out.lines().map(job).collect()
    };
    assert_eq!(lines(&["report", "--json", "--last", "2"]), [1, 2], "one object a line");
    assert_eq!(lines(&["report", "--json", "--last", "1"]), [2]);
    assert_eq!(lines(&["report", "--json", "--since", "1h"]), [1, 2]);
    assert_eq!(lines(&["report", "--json", "--since", "@99999999999"]), Vec::<u64>::new());
    for wrong in [&["report", "1", "--last", "2"][..], &["report", "--since", "yesterday"]] {
        assert_eq!(host.pinfold(wrong).code, Some(2), "{wrong:?}");
    }
}

fn why_a_job_waits(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    host.submit(&[], "until [ -e go ]; do sleep 0.05; done");
    host.until(1, JobState::Running);
    let job = host.submit(&[], "true");
    let value = json(&host, &["why", "2", "--json"]);
    has_keys(&value, "version job state cause numbers figures change decisions");
    assert_eq!(value["state"], "queued");
    for words in ["cause", "change"] {
        assert!(!value[words].as_str().expect("words").is_empty(), "{value}");
    }
    let numbers = value["numbers"].as_array().expect("a list");
    let number = |name: &str| numbers.iter().find(|number| number["name"] == name).expect("told");
    let slots = number("slots used");
    assert_eq!((&slots["value"], &slots["text"]), (&1.into(), &"1 of 1".into()), "{value}");
    assert_eq!((&number("waited")["unit"], number("waited")["value"].is_number()), (&"s".into(), true));
    assert_eq!((&value["figures"]["slots_used"], &value["figures"]["slots"]), (&1.into(), &1.into()));
    host.make("go");
    host.until(job, JobState::Exited);
    let value = json(&host, &["why", "2", "--json"]);
    assert_eq!((&value["state"], &value["cause"]), (&"exited".into(), &"done".into()));
    let decisions = value["decisions"].as_array().expect("a list");
    assert!(!decisions.is_empty(), "{value}");
    has_keys(&decisions[0], "time_s action reason text action_code code figures");
    assert_eq!(decisions[0]["action_code"], "start", "{value}");
    assert!(decisions[0]["figures"]["slots"] == 1 && decisions[0]["code"].is_string(), "{value}");
    assert!(decisions[0]["action"].as_str().expect("words").starts_with("start as "), "{value}");
}

fn doctor(kind: Kind) {
    let host = Host::new(kind);
    let value = json(&host, &["doctor", "--json"]);
    has_keys(&value, "version mode reason abilities");
    let abilities = value["abilities"].as_array().expect("a list");
    let names: Vec<&str> = abilities.iter().filter_map(|ability| ability["ability"].as_str()).collect();
    for name in [
        "weigh",
        "idle_class",
        "pin",
        "freeze",
        "limit",
        "page_out",
        "processes",
        "quota",
        "io_rate",
        "kill",
        "measure",
    ] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    for ability in abilities {
        has_keys(ability, "ability real how change");
        assert!(!ability["how"].as_str().expect("words").is_empty(), "{ability}");
    }
    assert_eq!(value["mode"], json(&host, &["status", "--json"])["mode"]);
    // The turns that answered before are over.
    let value = json(&host, &["doctor", "--json"]);
    let turns = &value["loop"];
    has_keys(turns, "turns p50_s p99_s p999_s max_s max_at_s max_busy_with last_minute");
    has_keys(&turns["last_minute"], "max_s max_at_s max_busy_with");
    let rising = ["p50_s", "p99_s", "p999_s", "max_s"].map(|key| turns[key].as_f64().expect("a number"));
    assert!(rising[0] > 0.0 && rising.is_sorted() && turns["turns"].as_u64() >= Some(1), "{turns}");
    let findings = value["findings"].as_array().expect("a list");
    let found = findings.iter().find(|finding| finding["subject"] == "loop").expect("a finding");
    let busy_with = turns["max_busy_with"].as_str().expect("words");
    assert!(found["found"].as_str().expect("words").contains(busy_with), "{found} {turns}");
}

fn configuration(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=2"]);
    let get = |key: &str| {
        let done = host.pinfold(["config", "get", key]);
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out.trim().to_owned()
    };
    assert_eq!(get("slots.factor"), "2");
    assert_eq!(get("priority.default"), "10");
    host.succeeds(["config", "set", "slots.factor=3", "priority.default=4"]);
    assert_eq!((get("slots.factor").as_str(), get("priority.default").as_str()), ("3", "4"));
    let status = host.status(&[]);
    assert_eq!(status.slots.total, status.slots.cores * 3);
    let job = host.submit(&[], "true");
    assert_eq!(host.until(job, JobState::Exited).priority, 4);
    // All or nothing, and the key is named.
    let done = host.pinfold(["config", "set", "priority.default=5", "slots.factor=9"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("slots.factor"), "{done:?}");
    assert_eq!(get("priority.default"), "4");
    for (arguments, key) in
        [(["set", "slots.factr=1"], "slots.factr"), (["get", "no.such.key"], "no.such.key")]
    {
        let done = host.pinfold([&["config"], &arguments[..]].concat());
        assert_eq!(done.code, Some(2), "{done:?}");
        assert!(done.err.contains(key), "{done:?}");
    }
    let keys = json(&host, &["config", "get", "--json"]);
    let factor = keys["keys"].as_array().expect("a list").iter().find(|key| key["key"] == "slots.factor");
    assert_eq!(factor.expect("the key")["origin"], "set");
}

fn configuration_files(kind: Kind) {
    let mut host = Host::without_daemon(kind, &[]);
    let check = |text: &str| {
        std::fs::write(host.work("file.toml"), text).expect("a file");
        let done = host.pinfold(["config", "check", "file.toml"]);
        (done.code, done.err)
    };
    assert_eq!(check("[slots]\nfactor = 2\n").0, Some(0));
    let (code, said) = check("[slots]\n\nfactor = 7\n");
    assert_eq!(code, Some(2));
    assert!(said.contains("line 3") && said.contains("slots.factor"), "{said}");
    let (code, said) = check("[slots]\nfactr = 1\n");
    assert_eq!(code, Some(2));
    assert!(said.contains("slots.factr"), "{said}");
    let default = host.pinfold(["config", "default"]).out;
    assert_eq!(check(&default).0, Some(0), "the default file is good");

    // The daemon refuses a wrong key as well, by exit code and name.
    host.set(&["slots.factr=1"]);
    let log = host.path("refused.log");
    let mut daemon = host.daemon_command(&log).spawn().expect("it starts");
    let status = crate::process::ended_within(&mut daemon, crate::wait::PATIENCE).expect("it ends");
    let said = std::fs::read_to_string(&log).expect("its words");
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("slots.factr"), "{said}");
}

fn the_last_jobs_without_a_word(kind: Kind) {
    let host = Host::new(kind);
    let done = host.pinfold(["report"]);
    assert_eq!(done.code, Some(0), "a new user has no jobs: {done:?}");
    for name in ["first", "second"] {
        assert_eq!(host.pinfold(["run", "--name", name, "--", "true"]).code, Some(0));
    }
    (1..=2).for_each(|job| drop(host.until(job, JobState::Exited)));
    let done = host.pinfold(["report"]);
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!((done.code, lines.len()), (Some(0), 3), "a heading and a line each: {done:?}");
    assert!(lines[1].contains("first") && lines[2].contains("second"), "{done:?}");
    let done = host.pinfold(["report", "--name", "sec*", "--json"]);
    let view: Value = serde_json::from_str(&done.out).expect("one job");
    assert_eq!(view["name"], "second");
}

fn filters(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    for (name, script) in [("one", "exit 3"), ("two", "true"), ("other", "true")] {
        let job = host.submit(&["--name", name], script);
        host.until(job, JobState::Exited);
    }
    let out = |arguments: &[&str]| {
        let done = host.pinfold(arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
        done.out
    };
    let columns = ["--columns", "job,name,exit_code"];
    let report = out(&[&["report", "--last", "9", "--name", "o*", "--sort", "-job"][..], &columns].concat());
    assert_eq!(report, "JOB  NAME   EXIT_CODE\n3    other  0\n1    one    3\n");
    let status = out(&[&["status", "--state", "exited", "--limit", "1"][..], &columns].concat());
    assert_eq!(status, "JOB  NAME  EXIT_CODE\n1    one   3\n");
    let lines = out(&["report", "--last", "9"]);
    assert_eq!(lines.lines().count(), 4, "a line each: {lines}");
    assert!(out(&["report", "--last", "9", "--full", "--name", "two"]).lines().count() > 4);
    let json = out(&["report", "--last", "9", "--json", "--name", "two"]);
    assert!(json.lines().count() == 1 && json.contains("\"name\":\"two\""), "{json}");
    assert_eq!(out(&["status", "--since", "@4000000000"]).lines().last(), Some("no jobs"));
    for wrong in [&["status", "--state", "dead"][..], &["report", "--last", "9", "--columns", "wall"]] {
        assert_eq!(host.pinfold(wrong).code, Some(2), "{wrong:?}");
    }
    // A client that waits is told for what.
    let running = host.submit(&[], "exec sleep 1000");
    host.until(running, JobState::Running);
    let waiting = host.submit(&[], "true");
    host.until(waiting, JobState::Queued);
    let json = out(&["status", "--json", "--state", "queued"]);
    assert!(!json.contains("\"reason\":null"), "{json}");
}

fn wrong_usage(kind: Kind) {
    let host = Host::new(kind);
    let cases: [(&[&str], &str); 13] = [
        (&["no-such-command"], "no-such-command"),
        (&["run"], "COMMAND"),
        (&["run", "--priority", "99", "true"], "--priority"),
        (&["run", "--mem", "many", "true"], "--mem"),
        (&["run", "--mem", "4", "true"], "4 what? 4GiB"),
        (&["statsu"], "'status'"),
        (&["config", "set", "slots.factor", "2"], "is `slots.factor=2` meant?"),
        (&["config", "set", "slots.factr=2"], "is `slots.factor` meant?"),
        (&["run", "--primary", "--backfill", "true"], "--backfill"),
        (&["run", "--no-such-option", "true"], "--no-such-option"),
        (&["run", "--checkpoint", "", "true"], "--checkpoint <COMMAND>"),
        (&["submit", "--checkpoint", " \t", "--", "true"], "an empty command makes no checkpoint"),
        (&["batch", "--checkpoint=", "/dev/null"], "--checkpoint <COMMAND>"),
    ];
    for (arguments, word) in cases {
        let done = host.pinfold(arguments);
        assert_eq!(done.code, Some(2), "{arguments:?}: {done:?}");
        assert!(done.err.contains(word), "{arguments:?}: {done:?}");
        assert_eq!(done.out, "", "{arguments:?}");
    }
    for (variable, value, words) in [
        ("PINFOLD_BACKFILL", "maybe", "PINFOLD_BACKFILL=maybe"),
        ("PINFOLD_MEM", "4", "from the environment: PINFOLD_MEM"),
    ] {
        let done = host.shell(&format!("{variable}={value} pinfold run true"));
        assert!(done.code == Some(2) && done.err.contains(words), "{done:?}");
    }
    for value in ["yes", "off"] {
        let done = host.shell(&format!("PINFOLD_BACKFILL={value} pinfold run true"));
        assert_eq!(done.code, Some(0), "{value}: {done:?}");
    }
    for option in ["--help", "--version"] {
        host.succeeds([option]);
        let done = host.shell(&format!("pinfold {option} >/dev/full"));
        assert!(done.code == Some(1) && done.err.contains("standard output: No space left"), "{done:?}");
    }
    // More cores than there are can never be had.
    let done = host.pinfold(["run", "--cores", "65536", "true"]);
    assert_eq!(done.code, Some(5), "{done:?}");
}

fn the_machine(kind: Kind) {
    let host = Host::without_daemon(kind, &[]);
    let value = json(&host, &["topology", "--json"]);
    has_keys(&value, "version sockets numa_nodes l3 cores pus pu");
    let pus = value["pu"].as_array().expect("a list");
    assert_eq!(value["pus"].as_u64(), Some(pus.len() as u64));
    pus.iter().for_each(|pu| has_keys(pu, "os logical core l3 numa socket usable"));
    let value = json(&host, &["topology", "--json", "--from", "synthetic:pack:2 numa:1 core:4 pu:2"]);
    assert_eq!((&value["sockets"], &value["cores"], &value["pus"]), (&2.into(), &8.into(), &16.into()));
    for script in ["bash", "zsh", "fish"] {
        let done = host.pinfold(["completions", script]);
        assert_eq!(done.code, Some(0));
        assert!(done.out.contains("PINFOLD_COMPLETE"), "{script}: {done:?}");
    }
    host.succeeds(["man", "pages"]);
    assert!(host.wrote("pages/pinfold.1").contains(".TH pinfold"));
}

fn the_map(kind: Kind) {
    let host = Host::new(kind);
    let job = host.submit(&["--name", "mapped"], "while :; do sleep 0.05; done");
    let cpus = host.until(job, JobState::Running).cpus.expect("it has cores");
    // What a shell asks when somebody presses the key for it.
    for (typed, word) in
        [("cancel map", "mapped"), ("cancel ", &job.to_string()), ("config set cpu.b", "cpu.backfill=")]
    {
        let index = typed.split(' ').count();
        let (command, last) = typed.rsplit_once(' ').expect("a word before");
        let asked = format!(
            "PINFOLD_COMPLETE=bash _CLAP_COMPLETE_INDEX={index} pinfold -- pinfold {command} '{last}'"
        );
        // A shell is not kept waiting, so on a busy machine there may be no answer from the daemon in time.
        eventually(&format!("{typed} is completed by {word}"), || {
            let done = host.shell(&asked);
            if done.out.lines().any(|line| line == word) { Ok(()) } else { Err(format!("{done:?}")) }
        });
    }
    let value = json(&host, &["map", "--json"]);
    has_keys(
        &value,
        "version host sockets numa_nodes l3 cores pus usable_cores used_cores free_cores sets pu",
    );
    let set = &value["sets"][0];
    has_keys(set, "set cpus cores shared job name user class state pids");
    assert_eq!((set["job"].as_u64(), set["cpus"].as_str()), (Some(job), Some(cpus.as_str())));
    assert!(set["pids"].as_array().is_some_and(|pids| !pids.is_empty()), "{set}");
    let on = value["pu"].as_array().expect("a list").iter().filter(|pu| pu["sets"][0] == set["set"]);
    assert_eq!(on.count(), 1, "{value}");
    let text = host.pinfold(["map"]).out;
    assert!(text.contains("1 used") && text.contains("mapped") && text.contains("A"), "{text}");
    for file in ["map.svg", "map.png"] {
        host.succeeds(["map", "-o", file]);
    }
    assert!(host.wrote("map.svg").contains("job 1 mapped"));
    assert!(std::fs::read(host.work("map.png")).expect("the picture").starts_with(b"\x89PNG"));
    assert_eq!(host.pinfold(["map", "-o", "map.txt"]).code, Some(2));
    let idle = host.pinfold(["map", "--from", "synthetic:pack:2 core:4 pu:2"]);
    assert!(idle.out.contains("8 cores, 0 used, 8 free"), "{idle:?}");
}

fn standard_output_is_closed(kind: Kind) {
    let host = Host::new(kind);
    let done = host.shell("{ pinfold topology --json; echo $? >status; } | head -c 1");
    assert_eq!(done.code, Some(0), "{done:?}");
    crate::wait::eventually("the writer's status", || match host.wrote("status").as_str() {
        "0\n" => Ok(()),
        other => Err(other.to_owned()),
    });
}
