//! The daemon dies between accepting a job and its end, at whichever point: the job is neither lost nor run twice, and
//! waits for nobody who is gone.

use rustix::process::Signal;

use crate::host::{Host, send, status_field};
use crate::kind::{Kind, each_kind};
use crate::site::{NOTE, WAIT, host, logged, settled};
use crate::wait::eventually;

each_kind!(what_a_program_of_the_sites_leaves_is_not_its_job,);

/// A program that prepares jobs leaves a process of its own behind, which outlives the daemon: it is no process of the
/// job, neither when the next daemon looks for those of an earlier life nor at the end.
fn what_a_program_of_the_sites_leaves_is_not_its_job(kind: Kind) {
    let helper = format!(
        "{NOTE}; if [ $1 = before ]; then sleep 1000 >helper-says 2>&1 & echo $! >>helpers; {WAIT}; fi"
    );
    let mut host = host(kind, &[("a", &helper)], &[]);
    let job = host.submit(&[], "echo ran >>runs; exit 4");
    logged(&host, "before a 1\n");
    let helpers = |host: &Host, count: usize| {
        eventually("the program left a process", || {
            let said = host.wrote("helpers");
            let pids: Vec<u32> = said.lines().filter_map(|line| line.parse().ok()).collect();
            if pids.len() == count { Ok(pids) } else { Err(said) }
        })
    };
    helpers(&host, 1);
    host.crash();
    host.start_daemon();
    logged(&host, "before a 1\nafter a 1\nbefore a 1\n");
    let left = helpers(&host, 2);
    host.make("go");
    host.until_exit_code(job, 4);
    logged(&host, "before a 1\nafter a 1\nbefore a 1\nafter a 1 4\n");
    settled(&host);
    assert_eq!(host.wrote("runs"), "ran\n");
    let lives = |pid: &u32| status_field(*pid, "State").is_some_and(|state| !state.starts_with('Z'));
    assert!(left.iter().all(lives), "what is the site's is not ended with the job");
    left.into_iter().for_each(|pid| send(pid, Signal::KILL));
}
