//! A child is taken into the container of its job.

use pinfold_policy::JobId;
use pinfold_proto::row::ProcessId;
use pinfold_sys::container::{Container, ContainerError, Entered, Shape};
use pinfold_sys::identity::Process;
use pinfold_sys::peer::Peer;
use pinfold_sys::procfs::{Proc, ProcError};

use crate::clients::server::Server;
use crate::core::{ConnectionId, Ctx};
use crate::jobs::child::{Child, Children};
use crate::jobs::table::JobTable;

/// What becomes of a start by a child.
type Taken = Result<Option<(Container, ProcessId)>, ContainerError>;

/// The process `pid`, if it is a child of the peer's process, run by the peer's user. Nobody can have another's
/// process put into a job of theirs; whom the system trusts with everything need not be asked.
pub(crate) fn child_of(ctx: &Ctx, pid: u32, user: Peer) -> Option<Process> {
    if pid == std::process::id() {
        // This daemon may be a child of the process that started it, and is no job of its for that.
        return None;
    }
    let process = Process::open(&ctx.proc, pid).ok().flatten()?;
    is_child_of(&ctx.proc, &process, user).ok().filter(|is| *is).map(|_| process)
}

/// Makes a job's container, or takes the one in which a daemon that died during the start had put the child
/// already.
pub(crate) fn make_container(
    ctx: &Ctx,
    job: JobId,
    shape: &Shape,
    child: u32,
) -> Result<Container, ContainerError> {
    let occupied = match ctx.containers.create(job.0, shape) {
        Err(error @ ContainerError::Occupied { .. }) => error,
        made => return made,
    };
    let Some(mut left) = ctx.containers.adopt(job.0, None)? else { return Err(occupied) };
    if left.pids()? != [child] {
        return Err(occupied);
    }
    left.bind(&shape.cpus)?;
    left.share(shape.share)?;
    left.limit(shape.limit_bytes)?;
    left.restrict(&shape.limits)?;
    Ok(left)
}

/// Makes the container of a job and takes its child in; `None`: that one has ended, or is not its keeper's any more.
pub(crate) fn take_child_in(
    ctx: &Ctx,
    table: &JobTable,
    server: &Server,
    job: JobId,
    keeper: ConnectionId,
    shape: &Shape,
) -> Taken {
    let (Some(live), Some(user)) = (table.get(&job), server.peer(keeper)) else {
        return Ok(None);
    };
    let Some(child) = &live.child else { return Ok(None) };
    let known = child.id();
    // Without a descriptor so far, one for this moment.
    let opened;
    let process = match child.process.handle() {
        Some(_) => &child.process,
        None => {
            opened = Process::again(&ctx.proc, known.pid, known.start_ticks)?;
            let Some(process) = &opened else { return Ok(None) };
            process
        }
    };
    if !is_child_of(&ctx.proc, process, user)? {
        return Ok(None);
    }
    let entered = match enter(ctx, job, shape, process, user) {
        Err(error) if error.is_denied() && ctx.containers.plan().is_delegated() => {
            tracing::info!(job = job.0, %error, "a job is held by its processes: they cannot be put into a group");
            ctx.containers.holds_by_processes(job.0);
            enter(ctx, job, shape, process, user)
        }
        entered => entered,
    };
    Ok(entered?.map(|container| (container, known)))
}

/// Makes the container of a job and puts its child into it; `None`: that one has ended, or is not its keeper's any more.
fn enter(
    ctx: &Ctx,
    job: JobId,
    shape: &Shape,
    process: &Process,
    user: Peer,
) -> Result<Option<Container>, ContainerError> {
    let container = make_container(ctx, job, shape, process.pid())?;
    // Once more: to make groups takes its time, in which it may have become another user's.
    let entered = match is_child_of(&ctx.proc, process, user) {
        Ok(true) => container.enter_process(process),
        Ok(false) => Ok(Entered::Gone),
        Err(error) => Err(error.into()),
    };
    match entered {
        Ok(Entered::Yes) => Ok(Some(container)),
        gone_or_failed => {
            // What cannot be removed shows in the list of what is left.
            let _ = container.remove();
            gone_or_failed.map(|_| None)
        }
    }
}

/// Whether a process is alive, a child of the peer's process, and run by the peer's user.
pub(crate) fn is_child_of(proc: &Proc, process: &Process, user: Peer) -> Result<bool, ProcError> {
    let Some(stat) = process.stat(proc)?.filter(|stat| stat.parent == user.pid) else { return Ok(false) };
    let owner = if user.uid == 0 { Some(0) } else { proc.status(stat.pid)?.map(|status| status.user) };
    // Last: alive still, all that was read was its own.
    Ok(owner == Some(user.uid) && process.is_alive(proc)?)
}

/// The process `pid`, if it is a child of the peer's, to be kept until the job starts.
pub(crate) fn waiting_child(children: &Children, ctx: &Ctx, pid: Option<u32>, user: Peer) -> Option<Child> {
    pid.and_then(|pid| child_of(ctx, pid, user)).map(|process| children.keep(process))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn whose_child_a_process_is() {
        let proc = Proc::open(Path::new("/proc")).unwrap();
        let mut sleeper = Command::new("/bin/sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let process = Process::open(&proc, sleeper.id()).unwrap().unwrap();
        let uid = pinfold_sys::peer::own_uid();
        let own = Peer { pid: std::process::id(), uid };
        assert!(is_child_of(&proc, &process, own).unwrap());
        assert!(!is_child_of(&proc, &process, Peer { pid: 1, uid }).unwrap(), "another's");
        assert!(!is_child_of(&proc, &process, Peer { uid: 4_000_000_000, ..own }).unwrap(), "another user's");
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(!is_child_of(&proc, &process, own).unwrap(), "it has ended");
    }
}
