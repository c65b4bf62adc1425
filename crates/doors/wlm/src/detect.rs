//! Detects the workload managers of a host, their versions, and their hooks to pinfold.

use crate::block;
use crate::manager::Manager;

/// Queries to a host.
pub trait Surroundings {
    /// The text of a file; `None`: missing or unreadable.
    fn file(&self, path: &str) -> Option<String>;
    /// Whether a path exists.
    fn exists(&self, path: &str) -> bool;
    /// The names in a directory; none if it cannot be read.
    fn names(&self, dir: &str) -> Vec<String>;
    /// The first lines of a program's output for a command line; `None`: not found, or failed.
    fn answer(&self, words: &[&str]) -> Option<String>;
    /// A variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;
}

/// A missing part, and its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The missing part.
    pub what: String,
    /// The way out.
    pub remedy: String,
}

/// A detected manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub manager: Manager,
    /// Its version, as reported by the manager.
    pub version: Option<String>,
    /// Its directory of configuration.
    pub conf: String,
    /// Whether its configuration names pinfold's hooks.
    pub set_up: bool,
    /// The parts missing until its jobs reach pinfold.
    pub missing: Vec<Missing>,
}

/// The detected managers.
#[must_use]
pub fn detect(host: &dyn Surroundings) -> Vec<Found> {
    let all = [slurm(host), grid_engine(host), htcondor(host), pbs(host)];
    all.into_iter().flatten().collect()
}

/// The directory of a manager's configuration.
#[must_use]
pub fn conf_of(manager: Manager, host: &dyn Surroundings) -> String {
    let directory =
        |file: String| file.rsplit_once('/').map_or_else(|| ".".to_owned(), |(dir, _)| dir.to_owned());
    match manager {
        Manager::Slurm => host.variable("SLURM_CONF").map_or_else(|| "/etc/slurm".to_owned(), directory),
        Manager::GridEngine => {
            let cell = host.variable("SGE_CELL").unwrap_or_else(|| "default".to_owned());
            let root = host.variable("SGE_ROOT").unwrap_or_else(|| "/var/lib/gridengine".to_owned());
            format!("{root}/{cell}/common")
        }
        Manager::Htcondor => "/etc/condor/config.d".to_owned(),
        Manager::Pbs => "/var/spool/pbs".to_owned(),
        Manager::Generic => "/etc".to_owned(),
    }
}

fn missing(what: impl Into<String>, remedy: impl Into<String>) -> Missing {
    Missing { what: what.into(), remedy: remedy.into() }
}

fn install(manager: Manager) -> Missing {
    let word = manager.word();
    missing(
        "its configuration does not name pinfold's hooks",
        format!("pinfold wlm install {word} writes the hooks and prints the lines to add"),
    )
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

fn slurm(host: &dyn Surroundings) -> Option<Found> {
    let version = host.answer(&["slurmd", "-V"]).or_else(|| host.answer(&["srun", "--version"]));
    let conf = conf_of(Manager::Slurm, host);
    let configured = host.file(&format!("{conf}/slurm.conf"));
    if version.is_none() && configured.is_none() {
        return None;
    }
    let mut lacks = Vec::new();
    if !host.exists("/usr/include/slurm/spank.h") && !host.exists("/usr/local/include/slurm/spank.h") {
        lacks.push(missing(
            "slurm/spank.h, against which the plugin is built",
            "apt install libslurm-dev, or the headers of this Slurm",
        ));
    }
    if host.answer(&["cc", "--version"]).is_none() {
        lacks.push(missing("a C compiler, by which the plugin is built", "apt install gcc"));
    }
    if configured.is_none() {
        lacks.push(missing(
            format!("{conf}/slurm.conf cannot be read"),
            "set SLURM_CONF to the file of this host's Slurm",
        ));
    }
    let plugstack = host.file(&format!("{conf}/plugstack.conf")).unwrap_or_default();
    // Debian's Slurm finds lines of packages there.
    let drop_ins = "plugstack.conf.d";
    let included = active(&plugstack).any(|line| line.starts_with("include") && line.contains(drop_ins));
    let set_up = active(&plugstack).any(|line| line.contains("pinfold_spank"))
        || (included && host.exists(&format!("{conf}/{drop_ins}/pinfold.conf")));
    lacks.extend((!set_up).then(|| install(Manager::Slurm)));
    let version = version.as_deref().map(first_line);
    Some(Found { manager: Manager::Slurm, version, conf, set_up, missing: lacks })
}

/// Lines without comments and blanks.
pub(crate) fn active(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn grid_engine(host: &dyn Surroundings) -> Option<Found> {
    let conf = conf_of(Manager::GridEngine, host);
    let help = host.answer(&["qconf", "-help"]);
    if help.is_none() && !host.exists(&format!("{conf}/bootstrap")) {
        return None;
    }
    let queues = host.answer(&["qconf", "-sq", "*"]);
    let mut lacks = Vec::new();
    if queues.is_none() {
        lacks.push(missing(
            "qconf gets no answer",
            "set SGE_ROOT and SGE_CELL, and run this on a submit host while sge_qmaster runs",
        ));
    }
    let set_up = active(queues.as_deref().unwrap_or_default())
        .any(|line| line.starts_with("starter_method") && line.contains("pinfold"));
    lacks.extend((!set_up).then(|| install(Manager::GridEngine)));
    let version = help.as_deref().map(first_line);
    Some(Found { manager: Manager::GridEngine, version, conf, set_up, missing: lacks })
}

fn htcondor(host: &dyn Surroundings) -> Option<Found> {
    let version = host.answer(&["condor_version"])?;
    let conf = conf_of(Manager::Htcondor, host);
    let wrapper = host.answer(&["condor_config_val", "USER_JOB_WRAPPER"]).unwrap_or_default();
    let set_up = wrapper.contains("pinfold") || {
        let own = host.file(&format!("{conf}/90-pinfold.conf"));
        own.is_some_and(|text| block::is_there(&text) || text.contains("pinfold"))
    };
    let lacks = (!set_up).then(|| install(Manager::Htcondor)).into_iter().collect();
    Some(Found {
        manager: Manager::Htcondor,
        version: Some(first_line(&version)),
        conf,
        set_up,
        missing: lacks,
    })
}

fn pbs(host: &dyn Surroundings) -> Option<Found> {
    let server = host.answer(&["qmgr", "-c", "print server"]);
    let version = server.and_then(|_| host.answer(&["pbs_mom", "--version"]));
    if version.is_none() && !host.exists("/etc/pbs.conf") {
        return None;
    }
    let hooks = host.answer(&["qmgr", "-c", "list hook pinfold"]).unwrap_or_default();
    let set_up = hooks.contains("pinfold");
    let lacks = (!set_up).then(|| install(Manager::Pbs)).into_iter().collect();
    let version = version.as_deref().map(first_line);
    Some(Found { manager: Manager::Pbs, version, conf: conf_of(Manager::Pbs, host), set_up, missing: lacks })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[derive(Default)]
    pub(crate) struct Fake {
        pub(crate) files: BTreeMap<&'static str, &'static str>,
        pub(crate) answers: BTreeMap<&'static str, &'static str>,
        pub(crate) variables: BTreeMap<&'static str, &'static str>,
    }

    impl Surroundings for Fake {
        fn file(&self, path: &str) -> Option<String> {
            self.files.get(path).map(|text| (*text).to_owned())
        }

        fn exists(&self, path: &str) -> bool {
            self.files.contains_key(path)
        }

        fn names(&self, dir: &str) -> Vec<String> {
            let below = self.files.keys().filter_map(|path| path.strip_prefix(dir)?.strip_prefix('/'));
            let names = below.filter_map(|path| Some(path.split('/').next()?.to_owned()));
            names.collect::<BTreeSet<_>>().into_iter().collect()
        }

        fn answer(&self, words: &[&str]) -> Option<String> {
            self.answers.get(words.join(" ").as_str()).map(|text| (*text).to_owned())
        }

        fn variable(&self, name: &str) -> Option<String> {
            self.variables.get(name).map(|value| (*value).to_owned())
        }
    }

    #[test]
    fn nothing_is_here() {
        assert_eq!(detect(&Fake::default()), []);
    }

    #[test]
    fn slurm_without_and_with_the_plugin() {
        let mut fake = Fake::default();
        fake.answers.insert("slurmd -V", "slurm-wlm 22.05.8\n");
        fake.files.insert("/etc/slurm/slurm.conf", "ClusterName=x\n");
        let found = detect(&fake).remove(0);
        assert_eq!((found.manager, found.version.as_deref()), (Manager::Slurm, Some("slurm-wlm 22.05.8")));
        let lacks: Vec<&str> = found.missing.iter().map(|one| one.remedy.as_str()).collect();
        assert!(!found.set_up && lacks.len() == 3 && lacks[0].contains("libslurm-dev"), "{lacks:?}");
        fake.files.insert("/usr/include/slurm/spank.h", "");
        fake.answers.insert("cc --version", "cc 12\n");
        fake.files.insert("/etc/slurm/plugstack.conf", "# optional /x/pinfold_spank.so\n");
        assert!(!detect(&fake)[0].set_up, "a comment is nothing");
        fake.files.insert("/etc/slurm/plugstack.conf", "optional /x/pinfold_spank.so\n");
        let found = detect(&fake).remove(0);
        assert!(found.set_up && found.missing.is_empty(), "{found:?}");
        fake.files.insert("/etc/slurm/plugstack.conf", "# nothing\n");
        fake.files.insert("/etc/slurm/plugstack.conf.d/pinfold.conf", "optional /x/pinfold_spank.so\n");
        assert!(!detect(&fake)[0].set_up, "nothing includes it");
        fake.files.insert("/etc/slurm/plugstack.conf", "include /etc/slurm/plugstack.conf.d/*.conf\n");
        assert!(detect(&fake)[0].set_up, "a package has set it up");
        fake.variables.insert("SLURM_CONF", "/private/slurm.conf");
        assert_eq!(detect(&fake)[0].conf, "/private");
    }

    #[test]
    fn the_others() {
        let mut fake = Fake::default();
        fake.answers.insert("qconf -help", "SGE 8.1.9\nusage: qconf\n");
        fake.answers.insert("qconf -sq *", "qname all.q\nstarter_method /hooks/pinfold-starter.sh\n");
        fake.answers.insert("condor_version", "$CondorVersion: 23.9.6 $\n");
        fake.files.insert("/etc/pbs.conf", "");
        let found = detect(&fake);
        let told: Vec<_> = found.iter().map(|one| (one.manager, one.set_up, one.missing.len())).collect();
        let want = [(Manager::GridEngine, true, 0), (Manager::Htcondor, false, 1), (Manager::Pbs, false, 1)];
        assert_eq!(told, want);
        assert_eq!(found[0].version.as_deref(), Some("SGE 8.1.9"));
    }
}
