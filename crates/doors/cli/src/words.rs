//! Words of other tools that users type at pinfold's commands, and advice on each.
//!
//! Owns the only table of these words. Absent here: words that pinfold knows, which stand beside their commands.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words of a kind, the commands at which they are typed, with `|` between (empty: in place of a command), and the
/// advice.
type Row = (&'static str, &'static [&'static str], &'static str);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    // GNU parallel's.
    ("batch", &["--pipe", "--spreadstdin", "--pipe-part", "--pipepart", "--block", "--block-size", "--block-timeout", "--bt", "--recstart",
        "--recend", "--regexp", "--remove-rec-sep", "--removerecsep", "--rrs", "--round-robin", "--round", "--cat", "--fifo", "--tee",
        "--shard", "--group-by", "--bin", "-L", "-l", "--max-lines"],
        "lines get no standard input and no blocks of it: `split` makes files first, then `pinfold batch 'COMMAND < {}' ::: FILES`; -n N puts N arguments into a command"),
    ("batch", &["-S", "--sshlogin", "--sshloginfile", "--slf", "--ssh", "--ssh-delay", "--sshdelay", "-M", "--controlmaster", "--transfer",
        "--transferfile", "--transfer-file", "--tf", "--return", "--trc", "--basefile", "--bf", "-B", "--cleanup", "--onall", "--nonall",
        "--hostgroups", "--hgrp", "--filter-hosts", "--rsync-opts", "--workdir", "--wd"],
        "lines run on this host alone, in the directory of the caller"),
    ("batch", &["--sql", "--sql-master", "--sqlmaster", "--sql-worker", "--sqlworker", "--sql-and-worker", "--sqlandworker", "--csv"],
        "lists come from files and arguments: --colsep separates columns"),
    ("batch", &["--semaphore", "--sem", "--semaphore-name", "--id", "--semaphore-timeout", "--st", "--bg", "--fg", "--wait"],
        "each command is a job of one queue: `pinfold run -- COMMAND` waits for its end, `pinfold submit -- COMMAND` does not, `pinfold wait` waits for those"),
    ("batch", &["--nice"], "--backfill runs lines only in cycles that other jobs leave; --priority 1 to 16"),
    ("batch", &["--memfree", "--memsuspend", "--noswap", "--load", "--limit"],
        "the daemon itself keeps memory and cores from running short; --mem SIZE says what a line needs"),
    ("batch", &["--line-buffer", "--linebuffer", "--lb", "--latest-line", "--ll", "--tty", "--open-tty", "-o", "--tmux", "--tmuxpane",
        "--interactive", "-p", "--term-seq", "--termseq"],
        "lines have no terminal: --ungroup lets them write as they run"),
    ("batch", &["-t", "--verbose", "-v"], "--tag names the argument before each output; --dry-run prints the commands; the table at the end has results"),
    ("batch", &["--files", "--output-as-files", "--outputasfiles", "--compress", "--compress-program", "--decompress-program", "--tmpdir"],
        "--output DIR or --results DIR keeps outputs in files"),
    ("batch", &["--tagstring", "--color", "--color-failed", "--cf", "--ctag", "--ctagstring"], "--tag puts the arguments before each line, without colours"),
    ("batch", &["--retry-failed"], "--resume-failed with the same list and job log runs the lines that failed"),
    ("batch", &["--env", "--record-env", "--session", "--_parset"], "lines have the environment of this command and its exported functions"),
    ("batch", &["--basenamereplace", "--bnr", "--basenameextensionreplace", "--bner", "--dirnamereplace", "--dnr", "--extensionreplace",
        "--er", "-I", "--replace", "-i", "--seqreplace", "--slotreplace", "-U", "--rpl", "--parens", "--template", "--tmpl", "--process-slot-var"],
        "the replacement strings have fixed names: {} {.} {/} {//} {/.} {#} {%} {1}; lines find their slot in PINFOLD_SLOT"),
    ("batch", &["--plus", "--gnu", "--plain", "--group", "--no-keep-order", "--nokeep-order", "--will-cite", "--bibtex", "--citation",
        "--use-cores-instead-of-threads", "--use-cpus-instead-of-cores", "--use-sockets-instead-of-threads"],
        "leave this option out: it is the usual case here, or has no meaning"),
    ("batch", &["-E", "--eof", "-e", "--arg-sep", "--arg-file-sep", "--skip-first-line", "--filter", "--total-jobs", "--total", "--trim"],
        "`sed`, `awk` or `tail -n +2` before `| pinfold batch` changes or leaves out lines; the separators are :::, :::+, :::: and ::::+"),
    ("batch", &["-d", "--delimiter"], "`tr , '\\n' | pinfold batch COMMAND {}` makes lines of a list; --null takes lines that end with NUL"),
    ("batch", &["--link", "--xapply"], "`::: A B :::+ 1 2` links the second list to the first; the shorter list says how many lines there are"),
    ("batch", &["-s", "--xargs", "--max-chars", "-x", "--exit", "--show-limits", "--max-line-length-allowed"],
        "-n N bounds the arguments of a command; -m takes as many as a command line holds"),
    ("batch", &["--quote", "--shell-quote", "--shellquote"], "arguments are always quoted; quote the command itself for the shell"),
    ("batch", &["--number-of-cpus", "--number-of-cores", "--number-of-sockets", "--number-of-threads"], "`pinfold topology` shows the machine"),
    ("batch", &["-J", "--profile", "--embed", "--shebang", "--hashbang", "--shebang-wrap", "--shell-completion", "--minversion", "-V", "--version"],
        "options come from the command line alone; `pinfold --version` and `pinfold admin completions` have the rest"),
    // Commands of task-spooler, Pueue, Slurm, Grid Engine and shells.
    ("", &["ls", "list", "jobs", "job", "queue", "squeue", "qstat", "state", "-l", "-s"], "`pinfold status` lists the jobs, `pinfold top` live"),
    ("", &["kill", "killall", "scancel", "qdel", "remove", "rm", "delete", "stop", "abort", "-k", "-K", "-r"], "`pinfold cancel JOB` ends a job"),
    ("", &["add", "enqueue", "push", "start", "sbatch", "qsub", "nohup", "tsp", "ts"],
        "`pinfold submit -- COMMAND` queues a command; `pinfold slurm -- sbatch FILE` runs a script of Slurm's"),
    ("", &["exec", "srun", "qrsh", "qlogin", "time"], "`pinfold run -- COMMAND` runs a command in the foreground"),
    ("", &["salloc", "sattach", "sstat", "scontrol", "sprio", "sacctmgr"], "`pinfold slurm -- COMMAND` runs a command with Slurm's commands"),
    ("", &["parallel", "xargs", "foreach", "each"], "`pinfold batch COMMAND ::: ARGUMENTS` runs a command for each argument, `pinfold batch FILE` the lines of a file"),
    ("", &["follow", "tail", "cat", "output", "logs", "stdout", "stderr", "show-output", "-c", "-t"], "`pinfold log JOB` prints the output of a job, `pinfold log -f JOB` until the job ends"),
    ("", &["info", "show", "explain", "describe", "-i"], "`pinfold why JOB` explains the state of a job, `pinfold report JOB` what the job used"),
    ("", &["history", "sacct", "sreport", "qacct", "stats", "usage", "seff", "efficiency"], "`pinfold report --last 10` shows what the last jobs used"),
    ("", &["restart", "rerun", "resubmit", "redo", "requeue"], "`pinfold retry JOB` submits a failed job again, `pinfold again JOB OPTIONS` any job with other options"),
    ("", &["pause", "freeze", "qhold"], "`pinfold suspend JOB` freezes a running job, `pinfold hold JOB` keeps a waiting job from starting"),
    ("", &["continue", "unpause", "thaw", "qrls", "unhold"], "`pinfold resume JOB` continues a suspended job, `pinfold release JOB` lets a held job start"),
    ("", &["priority", "prioritize", "renice", "nice", "edit", "qalter", "update", "switch", "swap", "urgent", "-u", "-U"], "`pinfold set JOB --priority N` and other options change a job; the highest priority is 16"),
    ("", &["group", "slots", "-S"], "`pinfold config set slots.factor=F` sets the slots for each core, `pinfold batch -j N` bounds a batch, --project groups jobs"),
    ("", &["clean", "clear", "reset", "-C"], "ended jobs need no removal: `pinfold status` shows them with --all only"),
    ("", &["sinfo", "qhost", "nodes", "lstopo", "nproc"], "`pinfold topology` shows the machine, `pinfold map` which jobs hold each core"),
    ("", &["shutdown", "daemon", "server", "pueued", "-w"], "a daemon starts with the first command and ends when it is idle; `pinfold wait JOB` waits for a job"),
    ("", &["completion", "completions-bash", "shell-completion"], "`pinfold admin completions SHELL` prints completions"),
    // Options of the same tools.
    ("run|submit", &["--nice", "--niceness"], "--backfill runs a job in CPU time that other jobs leave; --priority 1 to 16"),
    ("run|submit", &["-J", "--job-name", "--label"], "--name NAME names a job"),
    ("run|submit", &["-d", "--dependency", "-W"], "--after [ok:|failed:|any:]JOB starts a job after the end of others"),
    ("run|submit", &["-p", "--partition", "--qos", "-q", "-A", "--account", "--group", "-g"], "a host has one queue; --project NAME groups jobs, --priority N orders jobs"),
    ("run|submit", &["-D", "--chdir", "--working-directory"], "jobs run in the directory of the caller"),
    ("run|submit", &["--export", "-V", "-v", "--get-user-env"], "jobs have the environment of the caller"),
    ("run|submit", &["-t", "--time-limit", "--walltime"], "--timeout DURATION ends a job, --time DURATION is the expected run time"),
    ("run|submit", &["--wrap"], "`pinfold submit -- sh -c 'COMMANDS'` runs shell commands"),
    ("run|submit", &["--mem-per-cpu", "--mem-per-node", "--memory"], "--mem SIZE is the expected memory of the whole job, --mem-limit SIZE the limit"),
    ("submit", &["-f", "--follow", "--wait"], "`pinfold run` waits for the end of the command; `pinfold wait JOB` and `pinfold log -f JOB` follow a submitted job"),
    ("status", &["-u", "--me", "-j", "--jobs", "-w", "-p", "--partition"], "`pinfold status JOB...` shows single jobs, --user NAME the jobs of a user, --state STATE jobs in a state"),
    ("log|why|wait|suspend|resume|hold|release|report|plot", &["-1", "-2", "-3", "-4", "-5", "-6", "-7", "-8", "-9"],
        "jobs have numbers from 1 on: `pinfold report --last 1` shows the number of the last job"),
    ("cancel", &["-9", "-f", "--force", "-u"], "`pinfold cancel --signal KILL JOB` ends a job at once"),
];

/// Advice on a word of another tool, typed at a command of pinfold (empty: in place of a command):
/// `advice("batch", "--nice")`.
pub(crate) fn advice(command: &str, word: &str) -> Option<&'static str> {
    TABLE
        .iter()
        .find(|(at, words, _)| at.split('|').any(|at| at == command) && words.contains(&word))
        .map(|(.., text)| *text)
}

/// Advice on the word of a command line that made this error.
pub(crate) fn advice_on(error: &clap::Error, command: &str) -> Option<&'static str> {
    let (command, kind) = match error.kind() {
        ErrorKind::UnknownArgument => (command, ContextKind::InvalidArg),
        ErrorKind::InvalidSubcommand => ("", ContextKind::InvalidSubcommand),
        _ => return None,
    };
    let Some(ContextValue::String(word)) = error.get(kind) else { return None };
    advice(command, word.split('=').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_given_on_words_that_pinfold_does_not_know() {
        for (command, words, text) in TABLE {
            assert!(text.len() > 20 && !text.ends_with('.'), "{text}");
            let lines = command.split('|').flat_map(|command| words.iter().map(move |word| (command, word)));
            for (command, word) in lines {
                assert_eq!(advice(command, word), Some(*text), "{word} has two rows");
                let line = ["pinfold", command, word].into_iter().filter(|word| !word.is_empty());
                let error = crate::help::tree().try_get_matches_from(line).expect_err(word);
                assert_eq!(advice_on(&error, command), Some(*text), "{word} is known: {error}");
            }
        }
        let page =
            std::fs::read_to_string("../../../docs/coming-from.md").expect("the page has a row for each");
        for word in TABLE.iter().filter(|(command, ..)| *command == "batch").flat_map(|(_, words, _)| *words)
        {
            assert!(page.contains(&format!("`{word}`")), "{word}");
        }
        assert_eq!(advice("batch", "--priority"), None);
        assert_eq!(advice("run", "--sshlogin"), None);
    }
}
