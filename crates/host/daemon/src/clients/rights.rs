//! Who may do what: own jobs only, unless one is an operator. Users are known by the kernel's word.

use pinfold_profile::store::Whose;
use pinfold_proto::config::Config;
use pinfold_proto::row::JobRow;
use pinfold_proto::wire::{ErrorCode, Request};
use pinfold_proto::{JobClass, JobSpec};
use pinfold_sys::peer::{self, Peer};

use crate::clients::lookup::Number;
use crate::clients::{lookup, rights};
use crate::core::{Ctx, Refusal, denied};

/// Whether this user may see and change all jobs: root, the daemon's own user, and those that
/// `access.operators` names.
pub(crate) fn is_operator(config: &Config, user: Peer) -> bool {
    user.uid == 0 || user.uid == peer::own_uid() || named(&config.access_operators, user.uid)
}

/// Whether this user may see and change a job: its own user, an operator, and who `projects.NAME.operators` names for
/// its project.
pub(crate) fn may_touch(config: &Config, user: Peer, job: &JobRow) -> bool {
    may_touch_jobs_of(config, user, job.uid, job.spec.project.as_ref())
}

/// As [`may_touch`], a job of this user and project.
pub(crate) fn may_touch_jobs_of(config: &Config, user: Peer, uid: u32, project: Option<&String>) -> bool {
    let steers =
        |name: &String| config.projects.get(name).is_some_and(|project| named(&project.operators, user.uid));
    user.uid == uid || is_operator(config, user) || project.is_some_and(steers)
}

/// Whose jobs a user may see, where none are named: its own, or with `all` as many as it may.
pub(crate) fn may_see(config: &Config, user: Peer, all: bool) -> Whose {
    if all && is_operator(config, user) {
        return Whose::Everybody;
    }
    let steered = config.projects.iter().filter(|(_, project)| all && named(&project.operators, user.uid));
    Whose::User { uid: user.uid, projects: steered.map(|(name, _)| name.clone()).collect() }
}

/// Checks what a job asks for against what its user may ask for; gives the priority it gets.
pub(crate) fn admit(config: &Config, user: Peer, spec: &JobSpec) -> Result<u8, Refusal> {
    let priority = priority(config, user, spec.priority.unwrap_or(config.priority_default))?;
    let operator = is_operator(config, user);
    let granted = |list: &[String]| operator || named(list, user.uid);
    if spec.class == Some(JobClass::Exclusive) && !granted(&config.access_exclusive) {
        return Err(denied("exclusive jobs are for operators and the users in `access.exclusive`"));
    }
    if spec.no_suspend && !granted(&config.access_no_suspend) {
        return Err(denied("--no-suspend is for operators and the users in `access.no_suspend`"));
    }
    if spec.cores == 0 {
        return Err((ErrorCode::Usage, "a job needs at least one core".to_owned()));
    }
    Ok(priority)
}

/// Whether this user may have every slot of the host.
pub(crate) fn may_have_the_host(config: &Config, user: Peer) -> bool {
    is_operator(config, user) || named(&config.access_exclusive, user.uid)
}

/// Checks a priority against what this host has and this user may have.
pub(crate) fn priority(config: &Config, user: Peer, wanted: u8) -> Result<u8, Refusal> {
    if !(1..=config.priority_max).contains(&wanted) {
        let text =
            format!("the priority {wanted} is not within 1 to {} (`priority.max`)", config.priority_max);
        return Err((ErrorCode::Usage, text));
    }
    if wanted > config.access_max_priority.max(config.priority_default) && !is_operator(config, user) {
        let highest = config.access_max_priority.max(config.priority_default);
        return Err(denied(&format!("priorities above {highest} are for operators (`access.max_priority`)")));
    }
    Ok(wanted)
}

/// The users whom a configuration names, each with its key.
pub(crate) fn users_named(config: &Config) -> Vec<(String, &str)> {
    let keys = config.users_named().map(|(key, names)| (key.to_owned(), names));
    let projects = config.projects.iter().flat_map(|(name, project)| {
        let users = project.users.iter().map(move |names| (format!("projects.{name}.users"), &names[..]));
        users.chain([(format!("projects.{name}.operators"), &project.operators[..])])
    });
    let all = keys.chain(projects);
    let named = all.flat_map(|(key, names)| names.iter().map(move |name| (key.clone(), name.as_str())));
    named.filter(|(_, name)| *name != "*").collect()
}

/// The users that are named in a request, as far as this user may make it: nobody else has names looked up, and waits for
/// that in one of the few places that there are.
pub(crate) fn users_in(config: &Config, user: Peer, request: &Request) -> Vec<String> {
    match request {
        Request::SetAside(asked) => asked.users.clone(),
        Request::ConfigSet { changes } if is_operator(config, user) => {
            let changed = config.with_changes(changes.iter().map(String::as_str));
            let Ok((config, set)) = changed else { return Vec::new() };
            let named = users_named(&config).into_iter().filter(|(key, _)| set.contains(key));
            named.map(|(_, name)| name.to_owned()).collect()
        }
        _ => Vec::new(),
    }
}

/// Why changes of these keys cannot be made, if they name a user that is not there, or of whom it is not known: who makes
/// them means that rights hold from then on. A file may name users before there are any.
pub(crate) fn named_in_vain(config: &Config, changed: &[String]) -> Option<Refusal> {
    let named: Vec<_> = users_named(config).into_iter().filter(|(key, _)| changed.contains(key)).collect();
    let is = |number: Number| named.iter().find(|(_, name)| lookup::number_of(name) == number);
    if let Some((key, name)) = is(Number::Nobody) {
        let text = format!("`{key}` names {name}, and this host knows no such user (`getent passwd {name}`)");
        return Some((ErrorCode::Usage, text));
    }
    let (key, name) = is(Number::Unknown)?;
    let text = format!(
        "`{key}` names {name}, and the system's user databases give no answer about that user \
         (`getent passwd {name}`): nothing is changed; try again"
    );
    Some((ErrorCode::Failed, text))
}

/// Whether a list names this user, or everybody. A name of which it is not known yet whose it is gives no rights.
pub(crate) fn named(list: &[String], uid: u32) -> bool {
    list.iter().any(|name| name == "*" || lookup::number_of(name) == Number::User(uid))
}

pub(crate) fn operators_only(ctx: &Ctx, user: Peer, what: &str) -> Result<(), Refusal> {
    if rights::is_operator(&ctx.configured.config, user) {
        return Ok(());
    }
    Err(denied(&format!("{what} is for operators (`access.operators`)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRANGER: Peer = Peer { pid: 1, uid: 4_000_000_000 };
    const ROOT: Peer = Peer { pid: 1, uid: 0 };

    #[track_caller]
    fn check(change: &[&str], user: Peer, spec: &JobSpec, want: Result<u8, ErrorCode>) {
        let (config, _) = Config::default().with_changes(change.iter().copied()).unwrap();
        assert_eq!(admit(&config, user, spec).map_err(|(code, _)| code), want, "{change:?} {spec:?}");
    }

    #[test]
    fn what_a_user_may_ask_for() {
        let plain = JobSpec { cores: 1, ..JobSpec::default() };
        let high = JobSpec { priority: Some(12), ..plain.clone() };
        let exclusive = JobSpec { class: Some(JobClass::Exclusive), ..plain.clone() };
        let no_suspend = JobSpec { no_suspend: true, ..plain.clone() };
        check(&[], STRANGER, &plain, Ok(10));
        check(&[], STRANGER, &high, Err(ErrorCode::Permission));
        check(&["access.max_priority=12"], STRANGER, &high, Ok(12));
        check(&[], ROOT, &high, Ok(12));
        check(&["priority.max=11"], ROOT, &high, Err(ErrorCode::Usage));
        let own = Peer { pid: 1, uid: peer::own_uid() };
        for spec in [&exclusive, &no_suspend] {
            check(&[], STRANGER, spec, Err(ErrorCode::Permission));
            check(&[], ROOT, spec, Ok(10));
            check(&[], own, spec, Ok(10));
            let all = ["access.exclusive=*", "access.no_suspend=*"];
            check(&all, STRANGER, spec, Ok(10));
        }
        check(&["access.exclusive=root"], STRANGER, &exclusive, Err(ErrorCode::Permission));
        check(&[], ROOT, &JobSpec::default(), Err(ErrorCode::Usage));
        check(&["priority.default=3"], STRANGER, &plain, Ok(3));
    }

    /// Whoever is named has the rights once a change is answered.
    #[test]
    fn a_user_of_whom_nothing_is_known_is_named_in_vain() {
        let check = |change: &str, want: Option<(ErrorCode, &str)>| {
            let (config, changed) = Config::default().with_changes([change]).unwrap();
            let said = named_in_vain(&config, &changed);
            match (&said, want) {
                (None, None) => {}
                (Some((code, text)), Some((want, words))) if *code == want && text.contains(words) => {}
                _ => panic!("{change}: {said:?}"),
            }
        };
        check("access.operators=*", None);
        check("slots.factor=2", None);
        check("access.operators=not-looked-up-yet", Some((ErrorCode::Failed, "no answer")));
        check(
            "projects.web.operators=not-looked-up-yet",
            Some((ErrorCode::Failed, "projects.web.operators")),
        );
        lookup::look_up_number("root", false);
        check("access.operators=root", None);
        lookup::look_up_number("nobody of this name", false);
        check(
            "access.operators=[\"root\", \"nobody of this name\"]",
            Some((ErrorCode::Usage, "knows no such")),
        );
    }

    /// One who may not change the configuration has nobody looked up.
    #[test]
    fn users_are_looked_up_for_those_who_may_name_them() {
        let config = Config::default();
        let named = |user: Peer, changes: &[&str]| {
            let changes = changes.iter().map(|&change| change.to_owned()).collect();
            users_in(&config, user, &Request::ConfigSet { changes })
        };
        let change = ["access.operators=ann", "slots.factor=2"];
        assert_eq!(named(ROOT, &change), ["ann"]);
        assert_eq!(named(ROOT, &["slots.factor=2"]), [""; 0]);
        assert_eq!(named(ROOT, &["no such key=1"]), [""; 0]);
        assert_eq!(named(STRANGER, &change), [""; 0]);
    }

    fn job(uid: u32, project: Option<&str>) -> JobRow {
        let spec = JobSpec { project: project.map(str::to_owned), ..JobSpec::default() };
        JobRow::asked_for(1, uid, "somebody".to_owned(), spec, 0)
    }

    #[test]
    fn jobs_are_ones_own() {
        let config = Config::default();
        assert!(may_touch(&config, STRANGER, &job(STRANGER.uid, None)));
        assert!(!may_touch(&config, STRANGER, &job(0, None)));
        assert!(may_touch(&config, ROOT, &job(STRANGER.uid, None)));
        let own = |uid| Whose::User { uid, projects: Vec::new() };
        assert_eq!(may_see(&config, STRANGER, true), own(STRANGER.uid));
        assert_eq!((may_see(&config, ROOT, false), may_see(&config, ROOT, true)), (own(0), Whose::Everybody));
    }

    #[test]
    fn who_steers_a_project_has_its_jobs_and_no_others() {
        // By the name of everybody, for whom there is always an account.
        let changes = ["projects.web.operators=*", "projects.lab={}"];
        let (config, _) = Config::default().with_changes(changes).unwrap();
        assert!(may_touch(&config, STRANGER, &job(0, Some("web"))));
        for other in [None, Some("lab"), Some("gone")] {
            assert!(!may_touch(&config, STRANGER, &job(0, other)), "{other:?}");
        }
        let Whose::User { uid, projects } = may_see(&config, STRANGER, true) else { panic!("not all") };
        assert_eq!((uid, projects), (STRANGER.uid, vec!["web".to_owned()]));
        let Whose::User { projects, .. } = may_see(&config, STRANGER, false) else { panic!("not all") };
        assert!(projects.is_empty(), "only when all are asked for");
        assert!(!is_operator(&config, STRANGER));
    }
}
