//! The places of a manager's present configuration that name hooks, with the line that takes each of them back. Hooks that
//! are still named must stay: the manager would run no job without them.

use crate::block;
use crate::detect::{Surroundings, active, conf_of};
use crate::manager::Manager;

/// The lines by which an administrator takes back each reference to a file in `dir`, without the lines between pinfold's own
/// marks; `None`: the manager is here and gives no answer.
#[must_use]
pub fn references(manager: Manager, dir: &str, host: &dyn Surroundings) -> Option<Vec<String>> {
    let files = format!("{dir}/");
    let (found, program) = match manager {
        Manager::Slurm => (slurm(&files, host), &["scontrol", "--version"][..]),
        Manager::GridEngine => (grid_engine(&files, host), &["qconf", "-help"][..]),
        Manager::Htcondor => (htcondor(&files, host), &["condor_version"][..]),
        Manager::Pbs => (pbs(host), &["qmgr", "--version"][..]),
        // Only LSF can be asked.
        Manager::Generic => return Some(lines_of(&host.answer(&["bqueues", "-l"])?, "lsb.queues", &files)),
    };
    found.or_else(|| host.answer(program).is_none().then(Vec::new))
}

/// The files that Slurm reads on this host: its own, the lines of its plugins, and included files.
fn slurm(files: &str, host: &dyn Surroundings) -> Option<Vec<String>> {
    let conf = conf_of(Manager::Slurm, host);
    let main = format!("{conf}/slurm.conf");
    let text = host.file(&main)?;
    let mut paths: Vec<String> =
        active(&text).filter_map(|line| line.strip_prefix("PlugStackConfig=")).map(str::to_owned).collect();
    paths.extend([main, format!("{conf}/plugstack.conf")]);
    let (mut lines, mut at) = (Vec::new(), 0);
    // Included files are appended while the list is walked.
    while let Some(path) = paths.get(at).cloned() {
        let text = block::remove(&host.file(&path).unwrap_or_default());
        for pattern in active(&text).filter_map(|line| line.strip_prefix("include ")) {
            let included = matching(pattern.trim(), host).into_iter().filter(|path| !paths.contains(path));
            paths.extend(included.collect::<Vec<_>>());
        }
        lines.extend(lines_of(&text, &path, files));
        at += 1;
    }
    Some(lines)
}

/// The files of a pattern with at most one star, in its last part.
fn matching(pattern: &str, host: &dyn Surroundings) -> Vec<String> {
    let (dir, name) = pattern.rsplit_once('/').unwrap_or((".", pattern));
    let (begin, end) = name.split_once('*').unwrap_or((name, ""));
    let fits = |name: &String| name.starts_with(begin) && name.ends_with(end);
    host.names(dir).into_iter().filter(fits).map(|name| format!("{dir}/{name}")).collect()
}

fn grid_engine(files: &str, host: &dyn Surroundings) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    let mut queue = String::new();
    for (name, value) in attributes(&host.answer(&["qconf", "-sq", "*"])?) {
        if name == "qname" {
            queue.clone_from(&value);
        }
        // The default, then values of hosts: VALUE,[HOST=VALUE],[HOST=VALUE].
        for (nth, part) in value.split(",[").enumerate() {
            // A queue takes no job while a threshold has no value.
            let drained = name == "load_thresholds" && part.contains("pinfold_draining=");
            lines.extend(match (nth, part.split_once('=')) {
                _ if !drained && !part.contains(files) => None,
                (1.., Some((of_host, _))) => Some(format!("qconf -purge queue {name} {queue}@{of_host}")),
                _ if drained => Some(format!("qconf -dattr queue {name} pinfold_draining=1 {queue}")),
                _ => Some(format!("qconf -mattr queue {name} NONE {queue}")),
            });
        }
    }
    let hosts = host.answer(&["qconf", "-sconfl"]).unwrap_or_default();
    for of in ["global"].into_iter().chain(hosts.split_whitespace()) {
        for (name, value) in attributes(&host.answer(&["qconf", "-sconf", of])?) {
            if value.contains(files) {
                // Without the editor of -mconf.
                lines.push(format!(
                    "(cd \"$(mktemp -d)\" && SGE_SINGLE_LINE=1 qconf -sconf {of} | sed 's/^{name} .*/{name} none/' >{of} && \
                     qconf -Mconf {of})"
                ));
            } else if name == "execd_spool_dir" {
                lines.extend(running(&value, files, host));
            }
        }
    }
    let defaults = format!("{}/sge_request", conf_of(Manager::GridEngine, host));
    lines.extend(lines_of(&host.file(&defaults).unwrap_or_default(), &defaults, files));
    Some(lines)
}

/// Jobs of Grid Engine that have begun with the hooks, and have the same suspend, terminate and epilog until their end.
fn running(spool: &str, files: &str, host: &dyn Surroundings) -> Vec<String> {
    let dirs = host.names(spool).into_iter().map(|name| format!("{spool}/{name}/active_jobs"));
    let jobs = dirs
        .flat_map(|dir| host.names(&dir).into_iter().map(move |job| (format!("{dir}/{job}/config"), job)));
    let held = jobs.filter(|(config, _)| host.file(config).is_some_and(|text| text.contains(files)));
    held.map(|(_, job)| format!("# wait until job {job} is over, or: qdel {job}")).collect()
}

fn htcondor(files: &str, host: &dyn Surroundings) -> Option<Vec<String>> {
    let own = host.file(&format!("{}/90-pinfold.conf", conf_of(Manager::Htcondor, host))).unwrap_or_default();
    let marked = own.replace(&block::remove(&own), "");
    let dump = host.answer(&["condor_config_val", "-dump"])?;
    let others = active(&dump).filter(|line| line.contains(files) && !marked.contains(line));
    let way_out = "condor_config_val -verbose NAME says where; then condor_reconfig";
    Some(others.map(|line| format!("# delete: {line}   # {way_out}")).collect())
}

/// PBS has a copy of the hook, which asks a pinfold that may be removed next.
fn pbs(host: &dyn Surroundings) -> Option<Vec<String>> {
    host.answer(&["qmgr", "-c", "print server"])?;
    let hook = host.answer(&["qmgr", "-c", "list hook pinfold"]);
    Some(hook.map(|_| "qmgr -c 'delete hook pinfold'".to_owned()).into_iter().collect())
}

/// The lines to delete from a file.
fn lines_of(text: &str, path: &str, files: &str) -> Vec<String> {
    active(text)
        .filter(|line| line.contains(files))
        .map(|line| format!("# delete from {path}: {line}"))
        .collect()
}

/// Lines of a name and its value, where a backslash joins a line to the next.
fn attributes(text: &str) -> Vec<(String, String)> {
    let joined = text.replace("\\\n", " ");
    let pairs = active(&joined).filter_map(|line| line.split_once(char::is_whitespace));
    pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::tests::Fake;

    #[track_caller]
    fn check(manager: Manager, fake: &Fake, want: &[&str]) {
        assert_eq!(references(manager, "/hooks", fake).unwrap(), want, "{manager}");
    }

    #[test]
    fn a_manager_that_is_not_here_names_nothing() {
        for manager in Manager::ALL {
            let want = (manager != Manager::Generic).then(Vec::new);
            assert_eq!(references(manager, "/hooks", &Fake::default()), want, "{manager}");
        }
    }

    #[test]
    fn a_manager_without_an_answer_is_no_manager_without_references() {
        for (manager, version) in [
            (Manager::Slurm, "scontrol --version"),
            (Manager::GridEngine, "qconf -help"),
            (Manager::Htcondor, "condor_version"),
            (Manager::Pbs, "qmgr --version"),
        ] {
            let mut fake = Fake::default();
            fake.answers.insert(version, "1");
            assert_eq!(references(manager, "/hooks", &fake), None, "{manager}");
        }
    }

    #[test]
    fn lines_of_slurm_that_others_added() {
        let mut fake = Fake::default();
        let ours = Box::leak(block::add("", "optional /hooks/pinfold_spank.so\n").into_boxed_str());
        fake.files.insert("/etc/slurm/slurm.conf", "ClusterName=x\n");
        fake.files.insert("/etc/slurm/plugstack.conf", ours);
        check(Manager::Slurm, &fake, &[]);
        let text =
            "include /etc/slurm/d/*.conf\n# /hooks/pinfold_spank.so\nrequired /hooks-2/pinfold_spank.so\n";
        fake.files.insert("/etc/slurm/plugstack.conf", text);
        fake.files
            .insert("/etc/slurm/d/a.conf", "required /hooks/pinfold_spank.so\ninclude /etc/slurm/d/*.conf\n");
        fake.files.insert("/etc/slurm/d/a.off", "required /hooks/pinfold_spank.so\n");
        let line = "# delete from /etc/slurm/d/a.conf: required /hooks/pinfold_spank.so";
        check(Manager::Slurm, &fake, &[line]);
        fake.files.insert("/etc/slurm/slurm.conf", "PlugStackConfig=/x/plug.conf\n");
        fake.files.insert("/etc/slurm/plugstack.conf", "");
        fake.files.insert("/x/plug.conf", "optional /hooks/pinfold_spank.so pinfold=/usr/bin/pinfold\n");
        let line = "# delete from /x/plug.conf: optional /hooks/pinfold_spank.so pinfold=/usr/bin/pinfold";
        check(Manager::Slurm, &fake, &[line]);
    }

    #[test]
    fn attributes_of_grid_engine_and_jobs_that_have_begun() {
        let mut fake = Fake::default();
        let queues = "qname                 all.q\n\
             load_thresholds       np_load_avg=1.75,pinfold_draining=1,[h2=pinfold_draining=1]\n\
             epilog                NONE,[h1=/hooks/pinfold-epilog.sh $job_id],[h2=/bin/true]\n\
             starter_method        /hooks/pinfold-starter.sh\n\
             suspend_method        /bin/sh \\\n                      /hooks/pinfold-suspend.sh $job_id\n\
             resume_method         NONE\nqname                 other.q\nstarter_method        /hooks-2/x.sh\n";
        fake.answers.insert("qconf -sq *", queues);
        fake.answers.insert("qconf -sconfl", "h1\n");
        fake.answers.insert(
            "qconf -sconf global",
            "#global:\nexecd_spool_dir  /spool\njsv_url  /hooks/pinfold-jsv.sh\n",
        );
        fake.answers.insert("qconf -sconf h1", "load_sensor  /hooks/pinfold-load.sh\n");
        fake.files.insert("/var/lib/gridengine/default/common/sge_request", "-jsv /hooks/pinfold-jsv.sh\n");
        fake.files
            .insert("/spool/h1/active_jobs/17.1/config", "terminate_method=/hooks/pinfold-terminate.sh\n");
        fake.files.insert("/spool/h1/active_jobs/18.1/config", "terminate_method=NONE\n");
        let none = |of: &str, name: &str| {
            format!(
                "(cd \"$(mktemp -d)\" && SGE_SINGLE_LINE=1 qconf -sconf {of} | sed 's/^{name} .*/{name} none/' >{of} && \
                 qconf -Mconf {of})"
            )
        };
        let want = [
            "qconf -dattr queue load_thresholds pinfold_draining=1 all.q",
            "qconf -purge queue load_thresholds all.q@h2",
            "qconf -purge queue epilog all.q@h1",
            "qconf -mattr queue starter_method NONE all.q",
            "qconf -mattr queue suspend_method NONE all.q",
            "# wait until job 17.1 is over, or: qdel 17.1",
            &none("global", "jsv_url"),
            &none("h1", "load_sensor"),
            "# delete from /var/lib/gridengine/default/common/sge_request: -jsv /hooks/pinfold-jsv.sh",
        ];
        check(Manager::GridEngine, &fake, &want);
    }

    #[test]
    fn macros_of_htcondor_in_other_files() {
        let mut fake = Fake::default();
        let ours = Box::leak(block::add("", "USER_JOB_WRAPPER = /hooks/w.sh\n").into_boxed_str());
        fake.files.insert("/etc/condor/config.d/90-pinfold.conf", ours);
        fake.answers.insert(
            "condor_config_val -dump",
            "# Configuration\nSTART = x\nUSER_JOB_WRAPPER = /hooks/w.sh\n",
        );
        check(Manager::Htcondor, &fake, &[]);
        fake.answers.insert("condor_config_val -dump", "START = x\nUSER_JOB_WRAPPER = /bin/sh /hooks/w.sh\n");
        let found = references(Manager::Htcondor, "/hooks", &fake).unwrap().remove(0);
        assert!(found.starts_with("# delete: USER_JOB_WRAPPER = /bin/sh /hooks/w.sh "), "{found}");
    }

    #[test]
    fn the_hook_of_pbs_and_the_starter_of_lsf() {
        let mut fake = Fake::default();
        fake.answers.insert("qmgr -c print server", "#\n");
        check(Manager::Pbs, &fake, &[]);
        fake.answers.insert("qmgr -c list hook pinfold", "Hook pinfold\n");
        check(Manager::Pbs, &fake, &["qmgr -c 'delete hook pinfold'"]);
        fake.answers.insert("bqueues -l", "QUEUE: normal\nJOB_STARTER:  /hooks/pinfold-starter.sh\n");
        let line = "# delete from lsb.queues: JOB_STARTER:  /hooks/pinfold-starter.sh";
        check(Manager::Generic, &fake, &[line]);
    }
}
