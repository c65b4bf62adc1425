//! The fields of squeue and sacct. A field has a single name here, in lower case; squeue's letters and both commands'
//! names map to these names.
//!
//! Absent here: widths and separators (`form`).

use crate::jobs::{CLUSTER, Job};
use crate::state::State;
use crate::units::{cpu_time, date, exact_size, long_time, short_time, size_in, whole};

/// Context of fields, beside the job.
#[derive(Debug, Clone)]
pub(crate) struct Around {
    pub host: String,
    pub now_s: f64,
    pub uid: u32,
    pub group: String,
    pub gid: u32,
    /// The requested unit of sizes.
    pub unit: Option<char>,
    /// Whether sizes are written as plain kibibytes.
    pub plain: bool,
}

/// squeue's letters.
pub(crate) fn of_letter(letter: char) -> Option<&'static str> {
    Some(match letter {
        'a' => "account",
        'A' => "jobid",
        'b' => "tres-per-node",
        'B' => "batchhost",
        'c' => "mincpus",
        'C' => "numcpus",
        'd' => "mintmpdisk",
        'D' => "numnodes",
        'e' => "endtime",
        'E' => "dependency",
        'f' => "feature",
        'F' => "arrayjobid",
        'g' => "groupname",
        'G' => "groupid",
        'h' => "oversubscribe",
        'H' => "sockets",
        'i' => "jobarrayid",
        'I' => "cores",
        'j' => "name",
        'J' => "threads",
        'k' => "comment",
        'K' => "arraytaskid",
        'l' => "timelimit",
        'L' => "timeleft",
        'm' => "minmemory",
        'M' => "timeused",
        'n' => "reqnodes",
        'N' => "nodelist",
        'o' => "command",
        'O' => "contiguous",
        'p' => "priority",
        'P' => "partition",
        'q' => "qos",
        'Q' => "prioritylong",
        'r' => "reason",
        'R' => "reasonlist",
        's' => "selectjobinfo",
        'S' => "starttime",
        't' => "statecompact",
        'T' => "state",
        'u' => "username",
        'U' => "userid",
        'v' => "reservation",
        'V' => "submittime",
        'w' => "wckey",
        'W' => "licenses",
        'x' => "exc_nodes",
        'X' => "corespec",
        'y' => "nice",
        'Y' => "schednodes",
        'z' => "s:c:t",
        'Z' => "workdir",
        _ => return None,
    })
}

/// The words above squeue's columns.
pub(crate) fn squeue_head(field: &str) -> String {
    match field {
        "jobarrayid" | "jobid" => "JOBID",
        "numcpus" => "CPUS",
        "numnodes" => "NODES",
        "minmemory" => "MIN_MEMORY",
        "mincpus" => "MIN_CPUS",
        "mintmpdisk" => "MIN_TMP_DISK",
        "statecompact" => "ST",
        "username" => "USER",
        "userid" => "UID",
        "groupname" => "GROUP",
        "groupid" => "GID",
        "timeused" => "TIME",
        "timelimit" => "TIME_LIMIT",
        "timeleft" => "TIME_LEFT",
        "starttime" => "START_TIME",
        "endtime" => "END_TIME",
        "submittime" => "SUBMIT_TIME",
        "reasonlist" => "NODELIST(REASON)",
        "batchhost" => "EXEC_HOST",
        "arrayjobid" => "ARRAY_JOB_ID",
        "arraytaskid" => "ARRAY_TASK_ID",
        "workdir" => "WORK_DIR",
        "feature" => "FEATURES",
        "prioritylong" => "PRIORITY",
        "oversubscribe" => "OVER_SUBSCRIBE",
        "reqnodes" => "REQ_NODES",
        "tres-per-node" => "TRES_PER_NODE",
        other => return other.to_ascii_uppercase(),
    }
    .to_owned()
}

/// The field of a name in squeue's `-O`.
pub(crate) fn of_long_name(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "user" => "username".to_owned(),
        "jobname" => "name".to_owned(),
        "nodes" => "nodelist".to_owned(),
        "minimumcpus" => "mincpus".to_owned(),
        _ => lower,
    }
}

fn or(text: &str, none: &str) -> String {
    if text.is_empty() { none.to_owned() } else { text.to_owned() }
}

fn size(bytes: u64, around: &Around) -> String {
    match around.unit {
        Some(unit) => size_in(bytes, unit),
        None if around.plain => (bytes / 1024).to_string(),
        None => exact_size(bytes),
    }
}

/// Fields that are equal in both commands; `None` for other fields.
fn common(job: &Job, field: &str, around: &Around) -> Option<String> {
    let started = job.started_s.is_some();
    let node = if started { around.host.clone() } else { String::new() };
    Some(match field {
        "account" => or(&job.label.account, ""),
        "partition" => job.partition().to_owned(),
        "comment" => job.comment.clone(),
        "qos" => or(&job.label.qos, "normal"),
        "state" => job.state.long().to_owned(),
        "statecompact" => job.state.compact().to_owned(),
        "reason" => job.reason_word().to_owned(),
        "userid" | "uid" => around.uid_of(job).to_string(),
        "group" | "groupname" => around.group.clone(),
        "groupid" | "gid" => around.gid.to_string(),
        "user" | "username" => job.user.clone(),
        "cluster" => CLUSTER.to_owned(),
        "ncpus" | "numcpus" | "alloccpus" | "reqcpus" | "mincpus" | "maxcpus" => job.cores.to_string(),
        "nnodes" | "numnodes" | "allocnodes" | "reqnodesnum" | "maxnodes" => "1".to_owned(),
        "ntasks" | "numtasks" => job.label.ntasks.max(1).to_string(),
        "cpus-per-task" | "cpuspertask" => job.label.cpus_per_task.max(1).to_string(),
        "nodelist" => node,
        "priority" | "prioritylong" => job.priority.to_string(),
        "workdir" => job.label.directory.clone(),
        "restarts" | "restartcnt" => job.restarts().to_string(),
        "stdout" => crate::pattern::of_job(&job.label.output, job, &around.host),
        "stderr" => {
            let error = job.label.error.as_ref().unwrap_or(&job.label.output);
            crate::pattern::of_job(error, job, &around.host)
        }
        "stdin" => or(job.label.input.as_deref().unwrap_or(""), "/dev/null"),
        "exit_code" => job.exit().0.to_string(),
        "exitcode" | "derivedexitcode" => format!("{}:{}", job.exit().0, job.exit().1),
        _ => return None,
    })
}

impl Around {
    fn uid_of(&self, job: &Job) -> u32 {
        pinfold_sys::peer::user_named(&job.user).map_or(self.uid, |user| user.uid)
    }
}

fn when(at: Option<f64>, none: &str) -> String {
    at.map_or_else(|| none.to_owned(), date)
}

/// A field of squeue; a meaningless field is `N/A`.
pub(crate) fn squeue(job: &Job, field: &str, around: &Around) -> String {
    if let Some(text) = common(job, field, around) {
        return match field {
            "account" | "comment" => or(&text, "(null)"),
            _ => text,
        };
    }
    let limit = job.limit_s;
    let elapsed = job.elapsed_s(around.now_s);
    match field {
        "jobarrayid" => job.shown(),
        "jobid" => job.job.to_string(),
        "arrayjobid" => job.array().to_string(),
        "arraytaskid" => match job.member {
            Some(_) if !job.members.is_empty() => pinfold_proto::array::show_indexes(&job.members),
            Some((_, index)) => index.to_string(),
            None => "N/A".to_owned(),
        },
        "name" => job.name.clone(),
        "batchhost" if job.started_s.is_some() => around.host.clone(),
        "batchhost" => "n/a".to_owned(),
        "minmemory" => match job.claim_bytes {
            Some(bytes) => size(bytes, around),
            None => "0".to_owned(),
        },
        "timeused" => short_time(elapsed),
        "timeusedseconds" => elapsed.to_string(),
        "timelimit" => limit.map_or_else(|| "UNLIMITED".to_owned(), short_time),
        "timeleft" => match limit {
            Some(limit) => short_time(limit.saturating_sub(elapsed)),
            None => "UNLIMITED".to_owned(),
        },
        "starttime" => when(job.started_s.or(job.begin_s), "N/A"),
        "submittime" => date(job.submitted_s),
        "eligibletime" => date(job.begin_s.unwrap_or(job.submitted_s)),
        "endtime" => {
            let expected = job.started_s.zip(limit).map(|(start, limit)| start + seconds(limit));
            when(job.ended_s.or(expected), "N/A")
        }
        "reasonlist" => match job.state {
            State::Pending | State::Failed | State::Timeout | State::OutOfMemory => {
                format!("({})", job.reason_word())
            }
            _ if job.started_s.is_none() => format!("({})", job.reason_word()),
            _ => around.host.clone(),
        },
        "command" => or(&job.command_shown(), "(null)"),
        "dependency" => or(&job.label.dependency, "(null)"),
        "oversubscribe" => if job.label.exclusive { "NO" } else { "OK" }.to_owned(),
        "tres-per-node" => "N/A".to_owned(),
        "feature" | "licenses" | "wckey" | "reservation" | "gres" | "exc_nodes" | "excnodes"
        | "schednodes" | "network" => "(null)".to_owned(),
        "reqnodes" => String::new(),
        "sockets" | "cores" | "threads" | "selectjobinfo" => "*".to_owned(),
        "s:c:t" | "sct" => "*:*:*".to_owned(),
        "mintmpdisk" | "contiguous" | "nice" | "deltatime" => "0".to_owned(),
        "requeue" => u8::from(job.label.batch && !job.label.no_requeue).to_string(),
        "tres-alloc" | "tres" => tres(job),
        _ => "N/A".to_owned(),
    }
}

fn seconds(whole: u64) -> f64 {
    std::time::Duration::from_secs(whole).as_secs_f64()
}

/// `cpu=2,mem=4G,node=1,billing=2`.
fn tres(job: &Job) -> String {
    let mem = job.claim_bytes.filter(|&bytes| bytes > 0).map(|bytes| format!(",mem={}", exact_size(bytes)));
    format!("cpu={0}{1},node=1,billing={0}", job.cores, mem.unwrap_or_default())
}

/// Which of a job's rows in sacct a field is of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Row<'a> {
    /// The job.
    Job,
    /// The script.
    Batch,
    /// A step.
    Step(&'a crate::home::Step),
}

/// sacct's fields, in the order of `--helpformat`.
pub(crate) const SACCT: &[&str] = &[
    "Account",
    "AdminComment",
    "AllocCPUS",
    "AllocNodes",
    "AllocTRES",
    "AssocID",
    "AveCPU",
    "AveCPUFreq",
    "AveDiskRead",
    "AveDiskWrite",
    "AvePages",
    "AveRSS",
    "AveVMSize",
    "BlockID",
    "Cluster",
    "Comment",
    "Constraints",
    "ConsumedEnergy",
    "ConsumedEnergyRaw",
    "Container",
    "CPUTime",
    "CPUTimeRAW",
    "DBIndex",
    "DerivedExitCode",
    "Elapsed",
    "ElapsedRaw",
    "Eligible",
    "End",
    "ExitCode",
    "Extra",
    "FailedNode",
    "Flags",
    "GID",
    "Group",
    "JobID",
    "JobIDRaw",
    "JobName",
    "Layout",
    "Licenses",
    "MaxDiskRead",
    "MaxDiskReadNode",
    "MaxDiskReadTask",
    "MaxDiskWrite",
    "MaxDiskWriteNode",
    "MaxDiskWriteTask",
    "MaxPages",
    "MaxPagesNode",
    "MaxPagesTask",
    "MaxRSS",
    "MaxRSSNode",
    "MaxRSSTask",
    "MaxVMSize",
    "MaxVMSizeNode",
    "MaxVMSizeTask",
    "McsLabel",
    "MinCPU",
    "MinCPUNode",
    "MinCPUTask",
    "NCPUS",
    "NNodes",
    "NodeList",
    "NTasks",
    "Partition",
    "Planned",
    "PlannedCPU",
    "PlannedCPURAW",
    "Priority",
    "QOS",
    "QOSRAW",
    "QOSREQ",
    "Reason",
    "ReqCPUFreq",
    "ReqCPUFreqGov",
    "ReqCPUFreqMax",
    "ReqCPUFreqMin",
    "ReqCPUS",
    "ReqMem",
    "ReqNodes",
    "ReqTRES",
    "Reservation",
    "ReservationId",
    "Restarts",
    "SLUID",
    "Start",
    "State",
    "StdErr",
    "StdIn",
    "StdOut",
    "Submit",
    "SubmitLine",
    "Suspended",
    "SystemComment",
    "SystemCPU",
    "Timelimit",
    "TimelimitRaw",
    "TotalCPU",
    "TRESUsageInAve",
    "TRESUsageInMax",
    "TRESUsageInMaxNode",
    "TRESUsageInMaxTask",
    "TRESUsageInMin",
    "TRESUsageInMinNode",
    "TRESUsageInMinTask",
    "TRESUsageInTot",
    "TRESUsageOutAve",
    "TRESUsageOutMax",
    "TRESUsageOutMaxNode",
    "TRESUsageOutMaxTask",
    "TRESUsageOutMin",
    "TRESUsageOutMinNode",
    "TRESUsageOutMinTask",
    "TRESUsageOutTot",
    "UID",
    "User",
    "UserCPU",
    "WCKey",
    "WCKeyID",
    "WorkDir",
];

/// A field of sacct by its lower-case name; a meaningless field is empty, as in Slurm.
pub(crate) fn sacct(job: &Job, row: Row<'_>, field: &str, around: &Around) -> String {
    match row {
        Row::Job => of_job(job, field, around),
        Row::Batch => of_batch(job, field, around),
        Row::Step(step) => of_step(job, step, field, around),
    }
}

fn of_job(job: &Job, field: &str, around: &Around) -> String {
    let used = job.used.clone().unwrap_or_default();
    let elapsed = job.elapsed_s(around.now_s);
    match field {
        "jobid" => job.shown(),
        "jobidraw" => job.job.to_string(),
        "jobname" => job.name.clone(),
        "elapsed" => long_time(elapsed),
        "elapsedraw" => elapsed.to_string(),
        "cputime" => long_time(elapsed * u64::from(job.cores)),
        "cputimeraw" => (elapsed * u64::from(job.cores)).to_string(),
        "totalcpu" => cpu_time(used.user_s + used.system_s),
        "usercpu" => cpu_time(used.user_s),
        "systemcpu" => cpu_time(used.system_s),
        "start" => when(job.started_s, if job.state.is_over() { "None" } else { "Unknown" }),
        "end" => when(job.ended_s, "Unknown"),
        "submit" => date(job.submitted_s),
        "eligible" => date(job.begin_s.unwrap_or(job.submitted_s)),
        "suspended" => long_time(whole(job.suspended_s)),
        "reqmem" => job.claim_bytes.map(|bytes| size(bytes, around)).unwrap_or_default(),
        "reqtres" => tres(job),
        "alloctres" if job.started_s.is_some() => tres(job),
        "timelimit" => job.limit_s.map_or_else(|| "UNLIMITED".to_owned(), long_time),
        "timelimitraw" => job.limit_s.map(|limit| (limit / 60).to_string()).unwrap_or_default(),
        "planned" | "reserved" => {
            let waited = job.started_s.or(job.ended_s).unwrap_or(around.now_s) - job.submitted_s;
            long_time(whole(waited))
        }
        "nodelist" if job.started_s.is_none() => "None assigned".to_owned(),
        "allocnodes" if job.started_s.is_none() => "0".to_owned(),
        "alloccpus" if job.started_s.is_none() => "0".to_owned(),
        "submitline" => job.label.submit_line.clone(),
        "ntasks" | "gres" => String::new(),
        field => common(job, field, around).unwrap_or_default(),
    }
}

fn of_batch(job: &Job, field: &str, around: &Around) -> String {
    let used = job.used.clone().unwrap_or_default();
    match field {
        "jobid" => format!("{}.batch", job.shown()),
        "jobidraw" => format!("{}.batch", job.job),
        "jobname" => "batch".to_owned(),
        "maxrss" => size(used.peak_bytes, around),
        "averss" => size(used.mean_bytes, around),
        "maxvmsize" | "avevmsize" => size(used.virtual_bytes, around),
        "maxdiskread" | "avediskread" => size(used.read_bytes, around),
        "maxdiskwrite" | "avediskwrite" => size(used.written_bytes, around),
        "avecpu" | "mincpu" => long_time(whole(used.user_s + used.system_s)),
        "ntasks" | "nnodes" => "1".to_owned(),
        "maxrssnode" | "maxvmsizenode" | "mincpunode" => around.host.clone(),
        "maxrsstask" | "maxvmsizetask" | "mincputask" => "0".to_owned(),
        "tresusageintot" | "tresusageinmax" | "tresusageinave" => {
            format!(
                "cpu={},mem={}",
                long_time(whole(used.user_s + used.system_s)),
                exact_size(used.peak_bytes)
            )
        }
        "user" | "partition" | "uid" | "reqmem" | "reqtres" | "timelimit" | "timelimitraw" | "priority"
        | "qos" | "group" | "gid" | "reason" | "workdir" | "comment" | "submitline" | "planned"
        | "stdout" | "stderr" | "stdin" => String::new(),
        field => of_job(job, field, around),
    }
}

fn of_step(job: &Job, step: &crate::home::Step, field: &str, around: &Around) -> String {
    let elapsed = whole(step.ended_s - step.started_s);
    match field {
        "jobid" => format!("{}.{}", job.shown(), step.step),
        "jobidraw" => format!("{}.{}", job.job, step.step),
        "jobname" => step.name.clone(),
        "ntasks" => step.ntasks.to_string(),
        "ncpus" | "alloccpus" | "reqcpus" => step.cpus.to_string(),
        "start" => date(step.started_s),
        "end" => date(step.ended_s),
        "elapsed" => long_time(elapsed),
        "elapsedraw" => elapsed.to_string(),
        "totalcpu" => cpu_time(step.cpu_s),
        "maxrss" | "averss" => size(step.rss_peak_bytes, around),
        "exitcode" => format!("{}:{}", step.exit_code, step.signal),
        // Slurm's is of the whole job. Snakemake asks for a step's after a failure.
        "reason" if step.exit_code != 0 || step.signal != 0 => "NonZeroExitCode".to_owned(),
        "state" if step.exit_code == 0 && step.signal == 0 => State::Completed.long().to_owned(),
        "state" if step.signal != 0 => State::Cancelled.long().to_owned(),
        "state" => State::Failed.long().to_owned(),
        "usercpu" | "systemcpu" | "maxvmsize" | "avevmsize" | "maxdiskread" | "avediskread"
        | "maxdiskwrite" | "avediskwrite" | "avecpu" | "mincpu" => String::new(),
        field => of_batch(job, field, around),
    }
}
