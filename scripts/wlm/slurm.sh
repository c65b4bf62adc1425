# What must hold with a real Slurm: to be sourced by wlm.sh.
queue() { squeue -h -t all -j "$1" -o %T 2>/dev/null; }
left() { case $(queue "$1") in RUNNING | PENDING | COMPLETING | SUSPENDED) return 1 ;; esac; }
batch() { sbatch --parsable -n1 -o "$work/out.%j" "$@"; }
# field JOB NAME: what Slurm's job completion log says.
field() { sed -n "s/^JobId=$1 .* $2=\([^ ]*\).*/\1/p" "$work/slurm/log/jobs"; }

slurm() {
  local accounting=
  if [ "$quick" = 0 ]; then
    if there slurmdbd mariadbd mariadb-install-db my_print_defaults; then
      accounting=accounting
    else
      skipped+=("Slurm's accounting (apt: slurmdbd slurm-wlm-mysql-plugin mariadb-server-core mariadb-client-core)")
    fi
  fi
  slurm_up "$work/slurm" FORCE:2 $accounting || { holds "Slurm starts" false; tail -n 5 "$work"/slurm/log/*; return; }
  cp "$work/slurm/plugstack.conf" "$work/before"
  slurm_installed
  slurm_waits
  slurm_faults
  if [ "$quick" = 0 ]; then
    slurm_options
    slurm_told
    slurm_without_daemon
    [ -z "$accounting" ] || slurm_accounting
  fi
  slurm_advised
  local one
  # A line of another's own names the plugin, too.
  cp "$work/slurm/plugstack.conf" "$work/ours"
  sed -n '/^optional/p' "$work/ours" >>"$work/slurm/plugstack.conf"
  holds "a plugin that another line names stays" fails "$pinfold" wlm uninstall slurm --to "$work/hooks" 2>"$work/uninstall"
  holds "the line is named" grep -qF "# delete from $work/slurm/plugstack.conf: optional $work/hooks/pinfold_spank.so" "$work/uninstall"
  holds "nothing was removed" test -e "$work/hooks/pinfold_spank.so"
  cp "$work/ours" "$work/slurm/plugstack.conf"
  one=$(batch --wrap 'sleep 3000')
  holds "a job runs" until_true is "slurm:$one" running
  holds "hooks are removed" "$pinfold" wlm uninstall slurm --to "$work/hooks"
  holds "the job still runs" sh -c "[ \"\$(squeue -h -j $one -o %T)\" = RUNNING ]"
  holds "it is cancelled" scancel "$one"
  holds "it is gone from Slurm" until_true left "$one"
  holds "the file is as it was, byte for byte" cmp "$work/before" "$work/slurm/plugstack.conf"
  holds "nothing is left of the hooks" test ! -e "$work/hooks"
}

slurm_installed() {
  local before after a b out
  before=$(srun -n1 sh -c 'cat /proc/self/cgroup; grep Cpus_allowed_list /proc/self/status')
  a=$(batch --wrap 'exit 3')
  holds "a job ends without pinfold" until_true left "$a"
  holds "hooks are installed" "$pinfold" wlm install slurm --to "$work/hooks" --apply >/dev/null
  holds "they are found" until_true detected 'its jobs come to pinfold'
  # slurmd reads at its start which plugins have an epilog.
  end "$slurmd"
  holds "slurmd is restarted" slurmd_up "$work/slurm"
  out=$("$pinfold" wlm check slurm)
  holds "a check says that all holds: $out" test "$?" = 0
  after=$(srun -n1 sh -c 'cat /proc/self/cgroup; grep Cpus_allowed_list /proc/self/status')
  holds "a task stays in Slurm's groups and on its CPUs" same "$after" "$before"
  b=$(batch --wrap 'exit 3')
  holds "a job ends with pinfold" until_true left "$b"
  holds "Slurm tells the same end" same "$(field "$b" JobState)" "$(field "$a" JobState)"
}

slurm_waits() {
  local one two three four out
  say "Slurm: more jobs than cores"
  one=$(batch --wrap 'sleep 3000') two=$(batch --wrap 'sleep 3000')
  holds "two run" until_true count running 2
  three=$(batch --wrap 'sleep 3000') four=$(batch --wrap "touch $work/ran; exit 0")
  holds "two wait" until_true count queued 2
  holds "Slurm has all of them as running" same "$(squeue -h -t R | wc -l)" 4
  holds "why says what one waits for" tells "$("$pinfold" why "slurm:$three")" 'all 2 slots are taken'
  holds "one that waits is cancelled by Slurm" scancel "$three"
  holds "it is gone from Slurm" until_true left "$three"
  holds "and from pinfold" until_true is "slurm:$three.batch" exited
  holds "one that waits is cancelled by pinfold" "$pinfold" cancel "slurm:$four"
  holds "it is gone from Slurm" until_true left "$four"
  holds "it did not run" test ! -e "$work/ran"
  holds "Slurm calls it failed" same "$(queue "$four")" FAILED
  frozen_and_back "slurm:$one.batch"
  holds "one is suspended" "$pinfold" suspend "slurm:$one"
  holds "it is frozen" until_true is "slurm:$one" frozen
  out=$(pid_of "slurm:$one")
  holds "a frozen one is cancelled by Slurm" scancel "$one"
  holds "its process ends" until_true gone "$out"
  holds "it is gone from Slurm" until_true left "$one"
  holds "one that runs is cancelled by Slurm" scancel "$two"
  holds "it is gone from pinfold" until_true is "slurm:$two" exited
}

slurm_options() {
  local job
  say "Slurm: steps and options"
  job=$(sbatch --parsable -n2 -o "$work/steps" --wrap 'srun -n2 sh -c "echo task \$SLURM_PROCID"; srun -n1 echo last')
  holds "steps of a job that has all slots do not wait for it" until_true left "$job"
  holds "each task ran" same "$(grep -c task "$work/steps") $(tail -n 1 "$work/steps")" "2 last"
  srun -n1 --pinfold-priority=3 --pinfold-class=backfill --pinfold-mem=64M --pinfold-tmp=8M -J options \
    sh -c 'echo "$TMPDIR"; while [ ! -e '"$work/go"' ]; do sleep 0.1; done' >"$work/tmpdir" 2>&1 &
  holds "a step with options runs" until_true grep -q / "$work/tmpdir"
  holds "they got through" same "$("$pinfold" status --name options --columns priority,class | sed -n 2p | tr -s ' ')" "3 backfill"
  holds "its TMPDIR is in memory" tells "$(stat -f -c %T "$(head -n 1 "$work/tmpdir")")" tmpfs
  : >"$work/go"
  holds "it ends" wait "$!"
  holds "a priority that there is not is refused by srun, with the range" \
    tells "$(srun -n1 --pinfold-priority=99 touch "$work/owned" 2>&1)" 'from 1 to 16'
  holds "and by sbatch" sh -c "! sbatch -n1 -o /dev/null --pinfold-priority=17 --wrap 'touch $work/owned' 2>/dev/null"
  holds "and a size without a unit" sh -c "! srun -n1 --pinfold-mem=1 touch '$work/owned' 2>/dev/null"
  job=$(SLURM_CPUS_ON_NODE=1 sbatch --parsable -n2 --mem=150 -o /dev/null -J allocated --wrap 'exit 0')
  holds "a job with memory of Slurm's ends" until_true left "$job"
  holds "that memory is what it asks for" tells "$("$pinfold" report "slurm:$job" --json)" '"claim_bytes":157286400'
  holds "and so are its cores" tells "$("$pinfold" report "slurm:$job" --json)" '"cores":2'
  holds "hostile text is refused by srun" sh -c "! srun -n1 '--pinfold-mem=1;touch $work/owned' true 2>/dev/null"
  holds "hostile names do no harm" srun -n1 -J "--backfill \$(touch $work/owned)" true
  holds "nothing came of it" test ! -e "$work/owned"
}

comment() { [ "$(squeue -h -t all -j "$1" -O admin_comment:200 | sed 's/^(null)//; s/ *$//')" = "$2" ]; }
shares() { scontrol show partition "$1" | grep -q "OverSubscribe=$2"; }
slurm_is() { [ "$(queue "$1")" = "$2" ]; }
# What Slurm is told: by an operator's command, and what its epilog does.
slurm_told() {
  local one pid sync
  say "Slurm: what it is told"
  holds "the partition gets what slots there are" "$pinfold" wlm sync slurm --partition main
  holds "it has" tells "$(scontrol show partition main)" 'OverSubscribe=FORCE:1'
  background "$work/sync.log" "$pinfold" wlm sync slurm --partition main --every 1s
  sync=${started[0]}
  holds "the host gets twice as many slots" "$pinfold" config set slots.factor=2
  holds "the partition gets them, too" until_true shares main FORCE:2
  holds "an administrator changes it" scontrol update PartitionName=main OverSubscribe=FORCE:4
  holds "it is changed back" until_true shares main FORCE:2
  end "$sync"
  holds "the host has as many as before" "$pinfold" config set slots.factor=1
  holds "hostile names are refused" sh -c "! '$pinfold' wlm sync slurm --partition 'main OverSubscribe=NO' 2>/dev/null"
  one=$(batch --wrap 'sleep 3000')
  holds "one runs" until_true is "slurm:$one" running
  background "$work/sync.log" "$pinfold" wlm sync slurm --frozen-after 1s --every 1s --then suspend
  sync=${started[0]}
  holds "it is suspended" "$pinfold" suspend "slurm:$one"
  holds "Slurm suspends it, too" until_true slurm_is "$one" SUSPENDED
  holds "its AdminComment says why" until_true comment "$one" "pinfold: frozen on $(hostname)"
  holds "it is resumed" "$pinfold" resume "slurm:$one"
  holds "Slurm resumes it, too" until_true slurm_is "$one" RUNNING
  holds "that is gone" until_true comment "$one" ''
  end "$sync"
  background "$work/sync.log" "$pinfold" wlm sync slurm --frozen-after 1s --every 1s --then requeue
  sync=${started[0]}
  holds "it is suspended again" "$pinfold" suspend "slurm:$one"
  holds "Slurm requeues it" until_true sh -c "scontrol show job $one | grep -q Restarts=1"
  holds "pinfold has the run no longer" until_true is "slurm:$one" exited
  end "$sync"
  holds "it is cancelled" scancel "$one"
  until_true left "$one"
  one=$(batch --wrap "setsid sleep 3000 & echo \$! >$work/stray; until [ -e $work/seen ]; do sleep 0.1; done")
  holds "a job starts what outlives it" until_true test -s "$work/stray"
  pid=$(cat "$work/stray")
  holds "pinfold sees it" until_true sh -c "'$pinfold' status --columns pids slurm:$one | grep -qw $pid"
  : >"$work/seen"
  holds "the job ends" until_true left "$one"
  holds "its epilog ends what is left" until_true gone "$pid"
}

slurm_without_daemon() {
  local one two three out job frozen
  say "Slurm: without a daemon, and a daemon that is killed"
  one=$(batch --wrap 'sleep 3000') two=$(batch --wrap 'sleep 3000')
  holds "two run" until_true count running 2
  three=$(batch --wrap 'echo its turn came')
  holds "one waits" until_true count queued 1
  frozen=$(first running)
  holds "one is frozen" "$pinfold" suspend "$frozen"
  holds "it is" until_true is "$frozen" frozen
  out=$(pid_of "$frozen")
  kill -KILL "$daemon"
  holds "what was frozen goes on when the daemon is dead" until_true sh -c "! grep -q '^State:.*T' /proc/$out/status"
  daemon_up
  holds "the next daemon keeps what its user suspended so" until_true is "$frozen" frozen
  holds "and resumes it" "$pinfold" resume "$frozen"
  holds "it has both jobs" until_true count running 2
  scancel "$one" "$two"
  holds "one that waited has its turn" until_true grep -q 'its turn came' "$work/out.$three"
  holds "and ends" until_true left "$three"
  end "$daemon"
  job=$(batch --wrap 'echo done')
  holds "without a daemon a job runs" until_true left "$job"
  holds "it did what it was to do" grep -q done "$work/out.$job"
  holds "that it is unmanaged is said" grep -q 'runs unmanaged: no daemon' "$work/out.$job"
  daemon_up
}

# What Slurm's database has of a job's batch step: seconds of CPU, then of time.
slurm_figures() {
  sacct -n -P -j "$1.batch" -o TotalCPU,ElapsedRaw 2>/dev/null |
    awk -F '|' '$2 > 0 { n = split($1, part, "[:-]"); for (i = 1; i <= n; i++) s = 60 * s + part[i]; print s, $2; exit }'
}

# A job with the hooks or without; what it said of itself, and what Slurm says.
slurm_job() {
  local job
  if [ "$1" = without ]; then cp "$work/before" "$work/slurm/plugstack.conf"; else cp "$work/hooked" "$work/slurm/plugstack.conf"; fi
  job=$(batch "$work/work.sh")
  until_true left "$job"
  until_true sh -c "sacct -n -P -j $job.batch -o State 2>/dev/null | grep -q COMPLETED"
  echo "$(grep ^own "$work/out.$job") $(slurm_figures "$job")"
}

slurm_accounting() {
  say "Slurm: what sacct tells of a job with pinfold and without"
  cp "$work/slurm/plugstack.conf" "$work/hooked"
  same_accounts slurm_job "$work/slurm.accounts"
  cp "$work/hooked" "$work/slurm/plugstack.conf"
}
