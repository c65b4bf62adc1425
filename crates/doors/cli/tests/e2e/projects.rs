//! Projects: what is a project's own is lent while it does not want it, and comes back when it does.

use pinfold_proto::view::ProjectView;
use pinfold_proto::{JobClass, JobState};

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::tasks::two_cores;
use crate::wait::{eventually, no_rescue};

tests! {
    Best: a_borrower_becomes_a_backfiller, without_a_slot_left_a_borrower_stands_still,
        memory_that_swap_could_not_take_back_is_not_lent, projects_are_set_while_jobs_run;
}

fn done(host: &Host, arguments: &[&str]) -> String {
    let done = host.pinfold(arguments);
    assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
    done.out
}

fn wait_for(name: &str) -> String {
    format!("until [ -e go.{name} ]; do sleep 0.05; done")
}

/// What `status` says of a project, or of the jobs of none.
fn project(host: &Host, name: Option<&str>) -> ProjectView {
    let all = host.status(&[]).projects;
    all.iter().find(|project| project.project.as_deref() == name).unwrap_or_else(|| panic!("{all:?}")).clone()
}

/// A host of two cores, two jobs of no project on them.
fn lent_out(kind: Kind, settings: &[&str]) -> (Host, [u64; 2]) {
    let host = Host::with(kind, settings);
    let [first, second] = two_cores(&host);
    done(&host, &["config", "set", &format!("host.cpus={first},{second}"), "projects.web.cores=1"]);
    let jobs = [host.submit(&[], &wait_for("a")), host.submit(&[], &wait_for("b"))];
    for job in jobs {
        assert_eq!(host.until(job, JobState::Running).class, JobClass::Primary);
    }
    (host, jobs)
}

fn a_borrower_becomes_a_backfiller(kind: Kind) {
    let (host, [first, second]) = lent_out(kind, &[]);
    let rest = project(&host, None);
    assert_eq!((rest.cores_guaranteed, rest.cores_used, rest.cores_borrowed), (Some(1), 2, Some(1)));
    let web = host.submit(&["--project", "web", "--priority", "1"], &wait_for("web"));
    let view = host.until(web, JobState::Running);
    assert_eq!((view.class, view.project.as_deref()), (JobClass::Primary, Some("web")));
    let was = eventually("the newer borrower is a backfiller", || {
        let job = host.job(second);
        if job.class == JobClass::Backfill { Ok(job) } else { Err(format!("{job:?}")) }
    });
    let stays = host.job(first);
    assert_eq!(stays.class, JobClass::Primary, "{was:?} {stays:?}");
    assert_ne!(view.cpus, stays.cpus);
    let own = project(&host, Some("web"));
    assert_eq!(
        (own.cores_guaranteed, own.cores_used, own.cores_borrowed, own.cores_owed),
        (Some(1), 1, Some(0), 0)
    );
    assert_eq!(project(&host, None).cores_borrowed, Some(0));
    let text = done(&host, &["status"]);
    assert!(text.contains("project web: cores 1 of its 1"), "{text}");
    let why = done(&host, &["why", &second.to_string()]);
    assert!(why.contains(&format!("it was lent, and project web takes it back for job {web}")), "{why}");
    // A second one of the project has no right to the other core, and waits as anybody would.
    let more = host.submit(&["--project", "web", "--priority", "1"], "exit 0");
    assert_eq!(host.job(more).state, JobState::Queued);
    host.make("go.web");
    host.until_exit_code(web, 0);
    for name in ["go.a", "go.b"] {
        host.make(name);
    }
    [first, second, more].into_iter().for_each(|job| host.until_exit_code(job, 0));
}

fn without_a_slot_left_a_borrower_stands_still(kind: Kind) {
    let _frozen = no_rescue();
    let (mut host, [first, second]) = lent_out(kind, &["slots.factor=1"]);
    let web = host.submit(&["--project", "web"], &wait_for("web"));
    host.until(web, JobState::Running);
    host.until(second, JobState::Frozen);
    assert_eq!(host.job(first).state, JobState::Running);
    let why = done(&host, &["why", &second.to_string()]);
    assert!(why.contains(&format!("its slot was lent to it, and was reclaimed for job {web}")), "{why}");
    // It is so after a restart, too.
    let cpus = format!("host.cpus={}", done(&host, &["config", "get", "host.cpus"]).trim());
    host.set(&["slots.factor=1", "projects.web.cores=1", &cpus]);
    host.crash();
    host.start_daemon();
    host.until(web, JobState::Running);
    host.make("go.web");
    host.until_exit_code(web, 0);
    host.until(second, JobState::Running);
    for name in ["go.a", "go.b"] {
        host.make(name);
    }
    [first, second].into_iter().for_each(|job| host.until_exit_code(job, 0));
}

fn projects_are_set_while_jobs_run(kind: Kind) {
    let host = Host::new(kind);
    // Without projects the name is for reports only.
    let label = host.submit(&["--project", "anything"], "exit 0");
    host.until_exit_code(label, 0);
    assert_eq!(host.status(&[]).projects, []);
    done(&host, &["config", "set", "projects.web.cores=1", "projects.lab={}"]);
    assert_eq!(done(&host, &["config", "get", "projects.web.cores"]).trim(), "1");
    assert_eq!(done(&host, &["config", "get", "projects.lab.cores"]).trim(), "(unset)");
    let names: Vec<Option<String>> = host.status(&[]).projects.into_iter().map(|p| p.project).collect();
    assert_eq!(names, [Some("lab".to_owned()), Some("web".to_owned()), None]);
    let wrong = [
        (&["config", "set", "projects.web.cores=4000"][..], "guaranteed 4000 cores in all"),
        (&["config", "set", "projects.web.memory=900000GiB"], "of memory in all"),
        (
            &["config", "set", "projects.web.core=1"],
            "a project has `cores`, `memory`, `users` and `operators`",
        ),
        (&["config", "set", "projects.w b.core=1"], "a project's name"),
        (
            &["submit", "--project", "wbe", "true"],
            "--project wbe: there is no such project here, only lab, web",
        ),
    ];
    for (arguments, words) in wrong {
        let refused = host.pinfold(arguments);
        assert!(refused.code == Some(2) && refused.err.contains(words), "{arguments:?}: {refused:?}");
    }
    assert_eq!(done(&host, &["config", "get", "projects.web.cores"]).trim(), "1", "nothing was changed");
    done(&host, &["config", "save", "own.toml"]);
    // Where it is on by itself the tests turn it off, so that they do not wait for each other.
    let text = host.wrote("own.toml").replace("\n[host]\nother_load = false\n", "");
    assert_eq!(text, "[projects.lab]\n\n[projects.web]\ncores = 1\n");
    done(&host, &["config", "check", "own.toml"]);
    done(&host, &["config", "set", "projects.lab=", "projects.web="]);
    assert_eq!(host.status(&[]).projects, []);
    let history = done(&host, &["config", "history"]);
    assert!(history.contains("projects.web.cores: unset -> 1"), "{history}");
    assert!(history.contains("projects.web: {} -> unset"), "{history}");
}

fn memory_that_swap_could_not_take_back_is_not_lent(kind: Kind) {
    let settings = ["slots.factor=4", "host.memory=600MiB", "host.swap=0MiB", "projects.web.memory=400MiB"];
    let host = Host::with(kind, &settings);
    let first = host.submit(&["--mem", "50MiB"], &wait_for("a"));
    host.until(first, JobState::Running);
    let second = host.submit(&["--mem", "300MiB"], &wait_for("b"));
    let why = done(&host, &["why", &second.to_string()]);
    assert!(why.contains("memory kept for other projects"), "{why}");
    assert_eq!(host.job(second).state, JobState::Queued);
    let web = host.submit(&["--mem", "300MiB", "--project", "web"], &wait_for("web"));
    host.until(web, JobState::Running);
    assert_eq!(project(&host, Some("web")).memory_guaranteed_bytes, Some(400 << 20));
    done(&host, &["config", "set", "projects.web.memory="]);
    host.make("go.web");
    host.until(second, JobState::Running);
    for name in ["go.a", "go.b"] {
        host.make(name);
    }
    [first, web, second].into_iter().for_each(|job| host.until_exit_code(job, 0));
}
