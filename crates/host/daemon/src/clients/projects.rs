//! Projects: who may run in which, and what each has. What is whose is decided by the scheduler.

use pinfold_policy::Holding;
use pinfold_proto::JobSpec;
use pinfold_proto::config::Config;
use pinfold_proto::quantity::show_size;
use pinfold_proto::view::ProjectView;
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::peer::Peer;

use crate::clients::rights;
use crate::core::{Ctx, Refusal, denied};
use crate::meters::memory;

/// Checks the project that a job names. Where none is configured, a project is a name for reports.
pub(crate) fn admit_project(ctx: &Ctx, user: Peer, spec: &JobSpec) -> Result<(), Refusal> {
    admit(&ctx.configured.config, user, spec)
}

/// Why projects cannot be guaranteed what a configuration says, if they cannot.
pub(crate) fn overcommitted(ctx: &Ctx, config: &Config) -> Option<String> {
    if config.projects.is_empty() {
        return None;
    }
    let machine = ctx.policy.machine();
    let in_sets = machine.asides.iter().map(|set| set.cores.len()).sum::<usize>();
    let all = machine.cores.len() + in_sets + machine.neighbours_cores;
    let cores: u64 = config.projects.values().filter_map(|project| project.cores).map(u64::from).sum();
    if cores > all as u64 {
        return Some(format!(
            "the projects are guaranteed {cores} cores in all (`projects.NAME.cores`), and the host has {all} for \
             jobs"
        ));
    }
    let budget = memory::budget_in_time_bytes(ctx);
    let memory = config.projects.values().filter_map(|project| project.memory);
    let memory = memory.fold(0, u64::saturating_add);
    (memory > budget).then(|| {
        format!(
            "the projects are guaranteed {} of memory in all (`projects.NAME.memory`), and there are {} for jobs",
            show_size(memory),
            show_size(budget)
        )
    })
}

/// What to say when the host has less than the projects are guaranteed: it was so at the start, or became so.
pub(crate) fn projects_warning(ctx: &Ctx) -> Option<String> {
    overcommitted(ctx, &ctx.configured.config).map(|wrong| format!("{wrong}: each has its part of it"))
}

/// What each project has.
pub(crate) fn projects_view(ctx: &Ctx) -> Vec<ProjectView> {
    let view = |has: Holding| ProjectView {
        users: has
            .project
            .as_ref()
            .and_then(|name| ctx.configured.config.projects.get(name))
            .and_then(|project| project.users.clone()),
        cores_guaranteed: has.cores_guaranteed.map(|cores| cores as u64),
        cores_used: has.cores_used as u64,
        cores_borrowed: has.cores_borrowed().map(|cores| cores as u64),
        cores_owed: has.cores_owed as u64,
        memory_guaranteed_bytes: has.memory_guaranteed_bytes,
        memory_used_bytes: has.memory_used_bytes,
        memory_borrowed_bytes: has.memory_borrowed_bytes(),
        memory_owed_bytes: has.memory_owed_bytes,
        jobs_started: has.started as u64,
        jobs_waiting: has.waiting as u64,
        project: has.project,
    };
    ctx.policy.projects().into_iter().map(view).collect()
}

fn admit(config: &Config, user: Peer, spec: &JobSpec) -> Result<(), Refusal> {
    let Some(name) = spec.project.as_ref().filter(|_| !config.projects.is_empty()) else { return Ok(()) };
    let Some(project) = config.projects.get(name) else {
        let names: Vec<&str> = config.projects.keys().map(String::as_str).collect();
        let text = format!("--project {name}: there is no such project here, only {}", names.join(", "));
        return Err((ErrorCode::Usage, text));
    };
    match &project.users {
        Some(users) if !rights::is_operator(config, user) && !rights::named(users, user.uid) => {
            let whose = if users.is_empty() {
                "operators".to_owned()
            } else {
                format!("its users ({})", users.join(", "))
            };
            Err(denied(&format!(
                "--project {name}: the project is for {whose}; `projects.{name}.users` says who"
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRANGER: Peer = Peer { pid: 1, uid: 4_000_000_000 };
    const ROOT: Peer = Peer { pid: 1, uid: 0 };

    #[track_caller]
    fn check(changes: &[&str], user: Peer, project: Option<&str>, want: Result<(), ErrorCode>) {
        let (config, _) = Config::default().with_changes(changes.iter().copied()).unwrap();
        let spec = JobSpec { project: project.map(str::to_owned), cores: 1, ..JobSpec::default() };
        assert_eq!(admit(&config, user, &spec).map_err(|(code, _)| code), want, "{changes:?} {project:?}");
    }

    #[test]
    fn who_may_run_in_a_project() {
        let web = "projects.web.users=root";
        check(&[], STRANGER, Some("anything"), Ok(()));
        check(&[web], STRANGER, None, Ok(()));
        check(&[web], STRANGER, Some("web"), Err(ErrorCode::Permission));
        check(&[web], ROOT, Some("web"), Ok(()));
        check(&["projects.web.users=*"], STRANGER, Some("web"), Ok(()));
        check(&["projects.web.users=[]"], STRANGER, Some("web"), Err(ErrorCode::Permission));
        check(&["projects.web.cores=1"], STRANGER, Some("web"), Ok(()));
        check(&["projects.web.cores=1"], ROOT, Some("wbe"), Err(ErrorCode::Usage));
    }
}
