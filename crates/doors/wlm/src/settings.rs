//! The configuration lines that enable pinfold's hooks in a manager. They are printed for the operator; pinfold adds
//! them only on request.

use crate::hooks::Place;
use crate::manager::Manager;

/// Where a setting belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    /// Lines of a file, by its usual path.
    File(String),
    /// Commands of the manager, typed by root or its administrator.
    Commands,
}

/// Lines for the same place, with their purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Their place.
    pub to: Where,
    /// The lines.
    pub lines: String,
    /// Their effect, in a sentence.
    pub why: &'static str,
    /// Whether the hooks work without them.
    pub optional: bool,
}

/// The settings for an operator to add; `conf` is the manager's directory of configuration.
#[must_use]
pub fn settings(manager: Manager, place: &Place, conf: &str) -> Vec<Setting> {
    let dir = &place.dir;
    let file = |name: &str| Where::File(format!("{conf}/{name}"));
    match manager {
        Manager::Slurm => slurm(place, conf),
        Manager::GridEngine => grid_engine(dir),
        Manager::Htcondor => htcondor(dir, file("90-pinfold.conf")),
        Manager::Pbs => vec![setting(
            Where::Commands,
            format!(
                "qmgr -c 'create hook pinfold'\n\
                 qmgr -c 'set hook pinfold event = \"execjob_launch,execjob_end,exechost_periodic\"'\n\
                 qmgr -c 'set hook pinfold alarm = 86400'\n\
                 qmgr -c 'set hook pinfold freq = 30'\n\
                 qmgr -c 'import hook pinfold application/x-python default {dir}/pinfold_hook.py'\n"
            ),
            "a job asks pinfold before it executes; the host offers as many processors as pinfold has slots",
        )],
        Manager::Generic => vec![setting(
            Where::Commands,
            format!(
                "# LSF, lsb.queues: JOB_STARTER = {dir}/pinfold-starter.sh\n\
                     # others: put {dir}/pinfold-starter.sh in front of the job's command\n"
            ),
            "a job asks pinfold before its command executes",
        )],
    }
}

const fn setting(to: Where, lines: String, why: &'static str) -> Setting {
    Setting { to, lines, why, optional: false }
}

const fn optional(to: Where, lines: String, why: &'static str) -> Setting {
    Setting { to, lines, why, optional: true }
}

fn slurm(place: &Place, conf: &str) -> Vec<Setting> {
    let dir = &place.dir;
    vec![
        setting(
            Where::File(format!("{conf}/plugstack.conf")),
            format!("optional {dir}/pinfold_spank.so pinfold={}{}\n", place.pinfold, spank_words(place)),
            "slurmstepd asks pinfold before each task executes; an `optional` plugin that does not load stops no job. slurmd \
             reads at its start that there is an epilog, which ends what is left of a job: restart it",
        ),
        optional(
            Where::Commands,
            "scontrol update PartitionName=NAME OverSubscribe=FORCE:2\n".to_owned(),
            "Slurm sends twice as many jobs as there are cores, as `slots.factor=2` has room for; the rest waits here",
        ),
    ]
}

fn htcondor(dir: &str, file: Where) -> Vec<Setting> {
    vec![
        setting(
            file.clone(),
            format!(
                "USER_JOB_WRAPPER = {dir}/pinfold-wrapper.sh\n\
                 STARTD_CRON_JOBLIST = $(STARTD_CRON_JOBLIST) PINFOLD\n\
                 STARTD_CRON_PINFOLD_EXECUTABLE = {dir}/pinfold-cron.sh\n\
                 STARTD_CRON_PINFOLD_PERIOD = 10s\n\
                 STARTD_CRON_PINFOLD_PREFIX = Pinfold\n\
                 START = ($(START)) && (PinfoldOpen =!= False)\n"
            ),
            "a job asks pinfold before it executes; slots are closed while the host can take no more (PinfoldOpen)",
        ),
        optional(
            file,
            format!(
                "STARTD_CRON_JOBLIST = $(STARTD_CRON_JOBLIST) PINFOLD_LEARNED\n\
                     STARTD_CRON_PINFOLD_LEARNED_EXECUTABLE = {dir}/pinfold-learned.sh\n\
                     STARTD_CRON_PINFOLD_LEARNED_PERIOD = 10m\n\
                     STARTD_CRON_PINFOLD_LEARNED_PREFIX = PinfoldLearned\n\
                     START = ($(START)) && {LEARNED_FITS}\n"
            ),
            "a slot takes a job of a class whose size is known only while that much memory is free; its user (condor) has to \
                 be in `access.operators`, and all who can read the machine's attributes see users and names of jobs",
        ),
    ]
}

/// Whether the memory that the job's class needs is free: names as made by `wlm learned`, from the batch's name or
/// else the program's.
const LEARNED_FITS: &str = "((eval(strcat(\"PinfoldLearned_\", replaceAll(\"[^A-Za-z0-9]\", strcat(TARGET.Owner, \"_\", \
     TARGET.JobBatchName ?: regexps(\"^(.*/)?([^/]*)$\", TARGET.Cmd, \"\\\\2\")), \"_\"))) > PinfoldMemoryFree) =!= True)";

fn grid_engine(dir: &str) -> Vec<Setting> {
    vec![
        setting(
            Where::Commands,
            format!(
                "qconf -mattr queue starter_method {dir}/pinfold-starter.sh QUEUE\n\
                     qconf -mattr queue suspend_method '{dir}/pinfold-suspend.sh $job_id $job_pid' QUEUE\n\
                     qconf -mattr queue resume_method '{dir}/pinfold-resume.sh $job_id $job_pid' QUEUE\n\
                     qconf -mattr queue terminate_method '{dir}/pinfold-terminate.sh $job_id $job_pid' QUEUE\n"
            ),
            "a job asks pinfold before its script executes; qmod -s and -us suspend and resume it there, qdel ends all of it",
        ),
        optional(
            Where::Commands,
            format!(
                "qconf -mattr queue slots N QUEUE\n\
                         qconf -mc   # add: pinfold_slots pfs INT <= YES NO 0 0; pinfold_memory pfm MEMORY <= YES NO 0 0; \
                         pinfold_draining pfd INT >= NO NO 0 0\n\
                         qconf -mconf HOST   # add: load_sensor {dir}/pinfold-load.sh\n\
                         qconf -mattr queue load_thresholds pinfold_draining=1 QUEUE\n"
            ),
            "more slots than cores let jobs wait on the host; the load sensor says how many it takes now, and closes the \
                 queue while the host is drained",
        ),
        optional(
            Where::Commands,
            format!(
                "qconf -mattr queue epilog '{dir}/pinfold-epilog.sh $job_id' QUEUE\n\
                         qsub -jsv {dir}/pinfold-jsv.sh -ac pinfold_class=backfill,pinfold_mem=2G ...   # or jsv_url in qconf -mconf\n"
            ),
            "what a job left behind is ended; -ac asks pinfold for a priority, class, memory, a TMPDIR in memory",
        ),
    ]
}

/// The plugin's arguments in plugstack.conf.
fn spank_words(place: &Place) -> String {
    let socket = place.socket.as_ref().map(|socket| format!(" socket={socket}")).unwrap_or_default();
    let down = if place.waits_for_daemon { " down=wait" } else { "" };
    format!("{socket}{down}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_manager_is_told_where_its_hooks_are() {
        let place = Place {
            dir: "/opt/hooks".to_owned(),
            pinfold: "/usr/bin/pinfold".to_owned(),
            socket: Some("/run/pinfold.sock".to_owned()),
            waits_for_daemon: true,
        };
        for manager in Manager::ALL {
            let all = settings(manager, &place, "/etc/x");
            assert!(all.iter().any(|one| !one.optional && one.lines.contains("/opt/hooks")), "{manager}");
            assert!(all.iter().all(|one| one.lines.ends_with('\n') && !one.why.is_empty()), "{manager}");
        }
        let slurm = settings(Manager::Slurm, &place, "/etc/slurm");
        assert_eq!(slurm[0].to, Where::File("/etc/slurm/plugstack.conf".to_owned()));
        let line = "optional /opt/hooks/pinfold_spank.so pinfold=/usr/bin/pinfold socket=/run/pinfold.sock down=wait\n";
        assert_eq!(slurm[0].lines, line);
    }

    /// The manual has the expression of learned sizes as it is printed, and only hooks that ask for it get it.
    #[test]
    fn learned_sizes_are_a_choice() {
        let words = |text: &str| text.split_whitespace().collect::<String>();
        assert!(words(include_str!("../../../../docs/workload-managers.md")).contains(&words(LEARNED_FITS)));
        let all = htcondor("/hooks", Where::File("/etc/condor/config.d/90-pinfold.conf".to_owned()));
        let learned: Vec<bool> = all.iter().map(|one| one.lines.contains("pinfold-learned.sh")).collect();
        let optional: Vec<bool> = all.iter().map(|one| one.optional).collect();
        assert_eq!((&learned[..], &optional[..]), (&[false, true][..], &[false, true][..]));
    }
}
