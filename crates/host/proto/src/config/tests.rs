use super::kind::HOUR;
use super::*;

#[track_caller]
fn check(change: &str, want: Result<&str, &str>) {
    let key = change.split('=').next().unwrap();
    let got = Config::default().with_changes([change]).map(|(config, _)| config.value(key).unwrap());
    assert_eq!(
        got.map_err(|error| error.to_string()),
        want.map(str::to_owned).map_err(str::to_owned),
        "{change}"
    );
}

#[test]
fn changes() {
    check("slots.factor=2", Ok("2"));
    check("slots.factor=0.75", Ok("0.75"));
    check("slots.factor=5", Err("`slots.factor` is 5, and a number from 0 to 4 is wanted"));
    check("slots.factor=nan", Err("`slots.factor` is nan, and a number from 0 to 4 is wanted"));
    check("cpu.protect=0.2", Ok("0.2"));
    check("limits.processes=", Ok(""));
    check("access.max_jobs_size=", Err("`access.max_jobs_size` is ``, and at least 1MiB is wanted"));
    check("modules.disk=/scratch", Ok("\"/scratch\""));
    check("modules.disk=", Ok("\"\""));
    check("cpu.place=spread", Ok("\"spread\""));
    check("cpu.place=wide", Err("`cpu.place` is `wide`, and it is `auto`, `compact` or `spread`"));
    check("cpu.protect=2", Err("`cpu.protect` is 2, and a number from 0 to 1 is wanted"));
    check("memory.learn=site", Ok("\"site\""));
    check("memory.learn=all", Err("`memory.learn` is `all`, and it is `user` or `site`"));
    check("cpu.preemption=hard", Ok("\"hard\""));
    check("cpu.preemption=maybe", Err("`cpu.preemption` is `maybe`, and it is `hard`, `soft` or `off`"));
    check("schedule=off", Ok("false"));
    check("profile.interval=250ms", Ok("\"250ms\""));
    check("profile.interval=5ms", Err("`profile.interval` is `5ms`, and 50ms to 1h is allowed"));
    check("host.cpus=0-1", Ok("\"0-1\""));
    check("host.cpus=0", Ok("\"0\""));
    check("host.cpus=1-0", Err("`host.cpus` is `1-0`, and the range `1-0` runs downwards"));
    check("profile.store_max=100MiB", Ok("\"100MiB\""));
    check("profile.store_max=", Ok(""));
    check("profile.store_max=1KiB", Err("`profile.store_max` is `1KiB`, and at least 1MiB is wanted"));
    check("mark.character=+", Ok("\"+\""));
    check("mark.character=\u{25C6}", Ok("\"\u{25C6}\""));
    check("mark.character=", Ok("\"\""));
    check(
        "mark.character=ab",
        Err("`mark.character` is `ab`, and one printable character is wanted, or none"),
    );
    check(
        "mark.character=\u{1b}",
        Err("`mark.character` is `\u{1b}`, and one printable character is wanted, or none"),
    );
    check("profile.metrics=127.0.0.1:9464", Ok("\"127.0.0.1:9464\""));
    check("profile.metrics=[::1]:9464", Ok("\"[::1]:9464\""));
    check("profile.metrics=off", Ok(""));
    check(
        "profile.metrics=9464",
        Err("`profile.metrics` is 9464, and an address and port such as 127.0.0.1:9464 is wanted"),
    );
    check("modules.site=/etc/a,/etc/b", Ok("[\"/etc/a\", \"/etc/b\"]"));
    check("modules.wrap=", Ok("[]"));
    check(
        "modules.site=scripts/a",
        Err("`modules.site` is `scripts/a`, and a list of absolute paths of programs, at most 16, is wanted"),
    );
    check("modules.limit=0s", Err("`modules.limit` is `0s`, and 100ms to 1h is allowed"));
    check("slots.queue_ttl=", Ok(""));
    check("profile.metrics_users=ann,bob", Ok("[\"ann\", \"bob\"]"));
    check("access.operators=ann,bob", Ok("[\"ann\", \"bob\"]"));
    check("access.operators=[\"ann\"]", Ok("[\"ann\"]"));
    check("priority.max=8", Err("`priority.default` is 10, above `priority.max`, 8"));
    check("factor=2", Err("there is no key `factor`; is `slots.factor` meant?"));
    check("slots.factr=2", Err("there is no key `slots.factr`; is `slots.factor` meant?"));
    check("cpu.gard=on", Err("there is no key `cpu.gard`; is `cpu.guard` meant?"));
    check("tmp.bound=1G", Err("there is no key `tmp.bound`; `tmp` has `tmp.total`"));
    check("colour=blue", Err("there is no key `colour`"));
    check("slots.factor", Err("`slots.factor` is not KEY=VALUE"));
}

#[test]
fn a_file_is_taken_whole_or_not_at_all() {
    let text = "schedule = true\n[slots]\nfactor = 2 # twice\nqueue_ttl = \"1h\"\n";
    let (config, set) = Config::default().with_file(text).unwrap();
    assert_eq!((config.slots_factor_milli, config.slots_queue_ttl), (2000, Some(HOUR)));
    assert_eq!(set, ["schedule", "slots.factor", "slots.queue_ttl"]);
    let error = |text| Config::default().with_file(text).unwrap_err().to_string();
    assert_eq!(
        error("[slots]\n\nfactor = 9\n"),
        "line 3: `slots.factor` is 9, and a number from 0 to 4 is wanted"
    );
    assert_eq!(
        error("[slot]\nfactor = 1\n"),
        "line 2: there is no key `slot.factor`; is `slots.factor` meant?"
    );
    assert!(error("[slots\n").starts_with("line 1: "));
}

#[test]
fn keys_that_name_users_are_known() {
    let (config, _) = Config::default().with_changes(["access.exclusive=ann", "modules.site=/a"]).unwrap();
    let named: Vec<(&str, &[String])> = config.users_named().filter(|(_, names)| !names.is_empty()).collect();
    assert_eq!(named, [("access.exclusive", &["ann".to_owned()][..])]);
    let keys: Vec<&str> = config.users_named().map(|(key, _)| key).collect();
    let wanted = ["profile.metrics_users", "access.operators", "access.exclusive", "access.no_suspend"];
    assert_eq!(keys, wanted);
}

#[test]
fn the_table_of_keys_is_the_default() {
    let default = Config::default();
    for key in KEYS {
        assert_eq!(default.value(key.name).as_deref(), Some(key.default), "{}", key.name);
    }
    let uncommented: String = default_file()
        .lines()
        .map(|line| line.strip_prefix('#').filter(|l| !l.starts_with(' ')).unwrap_or(line))
        .map(|l| format!("{l}\n"))
        .collect();
    assert_eq!(default.with_file(&uncommented).unwrap().0, default);
}
