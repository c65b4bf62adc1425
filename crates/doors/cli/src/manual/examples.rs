//! An example or more of each command, for its help and its manual page. A test has each read by the tree of commands.

/// The examples of a command, each with its meaning; `command`: the words behind `pinfold`.
pub(crate) fn examples(command: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = EXAMPLES.iter().filter(move |(of, _)| *of == command);
    own.flat_map(|(_, examples)| examples.iter().copied())
}

/// Commands, by their words behind `pinfold`, each with examples and their meanings.
pub(crate) const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "run",
        &[
            (
                "pinfold run -- make -C project",
                "A build in the foreground: same terminal, directory and exit status.",
            ),
            (
                "pinfold run --mem 3GiB --timeout 2h -- ./simulate 7",
                "It starts when 3 GiB are free, and is ended after two hours.",
            ),
            (
                "pinfold run -n 4 -c 2 -- ./rank",
                "Four tasks of two PUs each, bound as Slurm's options would have it.",
            ),
        ],
    ),
    (
        "submit",
        &[
            ("pinfold submit -o out.txt -- ./simulate 7", "Returns at once and prints the job's number."),
            (
                "pinfold submit --array 0-99%4 -- ./step",
                "A hundred jobs, at most four at once; each has its index in PINFOLD_ARRAY_INDEX.",
            ),
            (
                "pinfold submit --after ok:12 --begin 22:00 -- ./report",
                "Starts when job 12 has succeeded, and not before 22:00.",
            ),
        ],
    ),
    (
        "batch",
        &[
            ("pinfold batch commands.txt", "Each line a job; waits for all."),
            (
                "pinfold batch -j 4 --tag 'gzip {}' ::: a.txt b.txt",
                "A command for each argument, at most four at once.",
            ),
            ("pinfold batch --detach commands.txt", "Returns at once and prints one number for all lines."),
            (
                "pinfold batch --joblog log --resume-failed commands.txt",
                "Runs again what failed or did not run the last time.",
            ),
        ],
    ),
    (
        "make",
        &[("pinfold make -- make -j16 all", "A build whose parallel commands follow what other jobs leave.")],
    ),
    ("adopt", &[("pinfold adopt --pid 4711", "Makes a job of a process that runs, and of all below it.")]),
    (
        "status",
        &[
            ("pinfold status", "What runs where, and what waits."),
            (
                "pinfold status --state queued --sort -priority --columns job,name,priority",
                "Chosen, sorted, and chosen columns.",
            ),
        ],
    ),
    ("why", &[("pinfold why 12", "Why job 12 waits or is suspended, and what would change it.")]),
    ("log", &[("pinfold log -f 12", "What job 12 writes, until it is over.")]),
    (
        "report",
        &[
            ("pinfold report --last 3", "What the last three jobs used, a line each."),
            ("pinfold report --since 7d --by name", "How figures are spread over all jobs of a name."),
        ],
    ),
    ("plot", &[("pinfold plot 12 -o job.svg", "Memory, cores and I/O over time, as a picture.")]),
    (
        "top",
        &[
            ("pinfold top", "Live; the key ? shows all keys."),
            ("pinfold top --at 2h", "The host as it was two hours ago."),
        ],
    ),
    ("ps", &[("pinfold ps --all", "Every process of the host, those of jobs with a mark.")]),
    (
        "export",
        &[(
            "pinfold export --last 100 --format parquet -o jobs.parquet",
            "A table for Python, R or a spreadsheet.",
        )],
    ),
    ("wait", &[("pinfold wait 12 13", "Ends with the status of job 13.")]),
    ("retry", &[("pinfold retry --failed", "Submits all your failed jobs again.")]),
    ("again", &[("pinfold again 12 --mem 4G", "The command of job 12 with more memory.")]),
    (
        "cancel",
        &[
            ("pinfold cancel 12", "TERM, and KILL 10 s later."),
            ("pinfold cancel --signal USR1 align", "Sends a signal to the job of that name."),
        ],
    ),
    ("suspend", &[("pinfold suspend 12", "Job 12 is frozen until it is resumed, and may be paged out.")]),
    ("resume", &[("pinfold resume 12", "It may go on.")]),
    ("hold", &[("pinfold hold 12", "Job 12 waits until it is released.")]),
    ("release", &[("pinfold release 12", "It may start.")]),
    ("set", &[("pinfold set 12 --priority 15 --mem 2GiB", "Changes a job that waits or runs.")]),
    (
        "config",
        &[
            ("pinfold config get slots.factor", "One key of the daemon that runs."),
            ("pinfold config set slots.factor=2 host.memory=48GiB", "All of them or none, while jobs run."),
            ("pinfold config save", "Writes what was set into the daemon's file."),
        ],
    ),
    (
        "set-aside",
        &[
            ("pinfold set-aside db --cores 2", "Keeps two cores for jobs that say --in db."),
            (
                "pinfold set-aside --idle --cores 4 --wait=1h",
                "Waits for four idle cores and prints the name of their set.",
            ),
            ("pinfold set-aside db --remove", "Gives them back."),
        ],
    ),
    ("sets", &[("pinfold sets", "The sets, and what the jobs of each do.")]),
    ("topology", &[("pinfold topology --json", "Sockets, caches, cores and PUs.")]),
    ("map", &[("pinfold map -o map.svg", "Which core belongs to what, as a picture.")]),
    (
        "advise",
        &[
            ("pinfold advise --name align", "How much jobs of that name should request."),
            ("pinfold advise --format slurm", "What each class of jobs should ask for, ready to paste."),
            (
                "pinfold advise --all --format slurm --apply fill --to /etc/slurm",
                "A table for Slurm's submission plugin, which fills in missing requests.",
            ),
            ("pinfold advise --by month", "What each class requested, used and could have saved, by month."),
        ],
    ),
    (
        "squeeze",
        &[
            ("pinfold squeeze -- sort big.txt", "The least memory that a command runs as well with."),
            (
                "pinfold squeeze --for 10m 12",
                "What job 12, which runs, could do without, found in ten minutes at most.",
            ),
        ],
    ),
    ("layout", &[("pinfold layout -n 4 -c 2 -m cyclic", "What a request would get, without running it.")]),
    (
        "sim",
        &[
            (
                "pinfold sim --swf log.swf.gz --compare dispatch=fcfs,easy,conservative",
                "A cluster's log under three rules of a workload manager.",
            ),
            (
                "pinfold sim --since 30d --compare slots.factor=1,2",
                "What if: the same jobs with another setting.",
            ),
            (
                "pinfold sim --since 30d --what-if --mem=advised",
                "What if: each job with the memory that `pinfold advise` would have said.",
            ),
            ("pinfold sim calibrate", "Measures this host for later simulations of it."),
        ],
    ),
    ("host", &[("pinfold host --since 1d", "The host as a whole while jobs ran.")]),
    ("hub", &[("pinfold hub status", "Whether this host tells a hub, and what waits to be sent.")]),
    (
        "slurm",
        &[(
            "pinfold slurm -- snakemake --executor slurm",
            "A program that finds sbatch and squeue, backed by pinfold.",
        )],
    ),
    ("doctor", &[("pinfold doctor", "What this host lets pinfold do, and what would change that.")]),
    ("admin drain", &[("pinfold admin drain", "Before maintenance: nothing new starts.")]),
    ("admin undrain", &[("pinfold admin undrain", "Jobs start again.")]),
    ("admin audit", &[("pinfold admin audit --verify", "Whether the audit is what was written.")]),
    ("admin keepers", &[("pinfold admin keepers", "After a restart of the host.")]),
    ("admin backup", &[("pinfold admin backup copy.db", "A copy of the job store, while the daemon runs.")]),
    (
        "admin restore",
        &[("pinfold admin restore copy.db", "Puts it in place of the store; no daemon may run.")],
    ),
    ("admin check", &[("pinfold admin check", "Looks through the store for damage.")]),
    (
        "admin delegate",
        &[(
            "pinfold admin delegate",
            "As root, once: private daemons of users have all controllers of control groups.",
        )],
    ),
    ("admin rescue", &[("pinfold admin rescue", "After a crash: thaws and lifts whatever no daemon holds.")]),
    ("admin replay", &[("pinfold admin replay /var/lib/pinfold/events", "Plays recorded events again.")]),
    ("admin wlm", &[("pinfold admin wlm detect", "Which workload managers are here.")]),
    ("admin completions", &[("pinfold admin completions bash", "For `source <(...)` in ~/.bashrc.")]),
    ("admin man", &[("pinfold admin man pages", "Writes these pages into a directory.")]),
];
