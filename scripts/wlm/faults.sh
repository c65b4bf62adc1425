# What must hold in Slurm when daemons end, are upgraded or restarted, a node is drained, memory runs out, a job begins anew, or
# a user means harm: to be sourced by wlm.sh.

parent() { awk '$1 == "PPid:" { print $2 }' "/proc/$1/status" 2>/dev/null; }
# stepd_of NAME: the process of Slurm's that looks after a job. It is the parent of one of the job's processes, whose order says
# nothing: their numbers begin anew at the kernel's highest.
stepd_of() {
  local pid above
  for pid in $(of "$1" pids | tr , ' '); do
    above=$(parent "$pid")
    if grep -q slurmstepd "/proc/$above/cmdline" 2>/dev/null; then echo "$above"; fi
  done | head -n 1
}
running_in_slurm() { [ "$(queue "$1")" = RUNNING ]; }
ended_well() { [ "$(queue "$1")" = COMPLETED ]; }

slurm_faults() {
  slurm_stepd_dies running
  slurm_stepd_dies frozen
  slurm_slurmd_dies
  slurm_upgraded
  slurm_drained
  slurm_memory_limit
  slurm_hostile
  if [ "$quick" = 0 ]; then
    slurm_requeued running
    slurm_requeued frozen
    slurm_requeued queued
  fi
}

# slurm_stepd_dies STATE: the process of Slurm's that looks after a job is killed while it runs or is frozen.
slurm_stepd_dies() {
  local one pid stepd
  say "Slurm: slurmstepd is killed while its job is $1"
  one=$(batch --no-requeue --wrap 'sleep 3000')
  holds "a job runs" until_true is "slurm:$one" running
  [ "$1" = running ] || "$pinfold" suspend "slurm:$one"
  holds "it is $1" until_true is "slurm:$one" "$1"
  pid=$(pid_of "slurm:$one") stepd=$(stepd_of "slurm:$one")
  holds "its slurmstepd is its parent" grep -q slurmstepd "/proc/$stepd/cmdline"
  kill -KILL "$stepd"
  holds "slurmstepd is gone" until_true gone "$stepd"
  if [ "$1" = frozen ]; then
    # The kernel hangs up process groups that are stopped and whose parents are gone.
    holds "its process ends" until_true gone "$pid"
    holds "pinfold has it no longer" until_true is "slurm:$one" exited
  else
    holds "its process goes on" test -d "/proc/$pid"
    holds "pinfold has the job as it was" is "slurm:$one" "$1"
    frozen_and_back "slurm:$one"
  fi
  # Nobody of Slurm's can signal it now: what its epilog says counts.
  holds "Slurm cancels it" scancel "$one"
  holds "it is gone from Slurm" until_true left "$one"
  holds "its process ends" until_true gone "$pid"
  holds "it is gone from pinfold" until_true is "slurm:$one" exited
}

# Four jobs: one runs, one is frozen, one has the slot of that, and one waits. Each ends when the file `end` is there.
four_jobs() {
  local script="until [ -e $work/end ]; do sleep 0.1; done; exit 0"
  rm -f "$work/end"
  ran=$(batch --wrap "$script") cold=$(batch --wrap "$script")
  holds "two run" until_true count running 2
  holds "one is suspended" "$pinfold" suspend "slurm:$cold"
  next=$(batch --wrap "$script")
  holds "the next one has its slot" until_true is "slurm:$next" running
  waits=$(batch --wrap "$script")
  holds "another one waits" until_true is "slurm:$waits" queued
  frozen_pid=$(pid_of "slurm:$cold")
  holds "the suspended one is stopped" until_true stopped "$frozen_pid"
}
four_as_they_were() {
  is "slurm:$ran" running && is "slurm:$cold" frozen && is "slurm:$next" running && is "slurm:$waits" queued &&
    stopped "$frozen_pid" && [ "$(squeue -h -t R | wc -l)" = 4 ]
}
four_end() {
  local one
  : >"$work/end"
  holds "what waited has its turn" until_true ended_well "$waits"
  holds "what was frozen is resumed" "$pinfold" resume "slurm:$cold"
  for one in "$ran" "$next" "$cold"; do holds "Slurm hears of the end of job $one" until_true ended_well "$one"; done
  holds "pinfold has none of them" until_true count running 0
}

slurm_slurmd_dies() {
  local ran cold next waits frozen_pid
  say "Slurm: slurmd is killed and started again"
  four_jobs
  kill -KILL "$slurmd"
  holds "slurmd is gone" until_true gone "$slurmd"
  holds "all jobs are as they were" four_as_they_were
  holds "slurmd is up again" slurmd_up "$work/slurm"
  holds "all jobs are as they were afterwards" four_as_they_were
  four_end
}

slurm_upgraded() {
  local ran cold next waits frozen_pid
  say "Slurm: pinfold is upgraded while jobs wait, run and are frozen"
  four_jobs
  end "$daemon"
  holds "Slurm notices nothing" same "$(squeue -h -t R | wc -l)" 4
  holds "the next daemon is up" daemon_up
  holds "all jobs are as they were" until_true four_as_they_were
  four_end
}

node_is() { [[ $(sinfo -h -N -o %T) = $1 ]]; }
# pending JOB: Slurm keeps it, for its node is drained, and pinfold knows nothing of it.
pending() { [ "$(squeue -h -j "$1" -o %T)" = PENDING ] && [ -z "$(of "slurm:$1" job)" ]; }
slurm_drained() {
  local one two sync
  say "Slurm: a node is drained"
  one=$(batch --wrap 'sleep 3000')
  holds "a job runs" until_true is "slurm:$one" running
  scontrol update NodeName=$NODE_NAME State=DRAIN Reason=repair
  holds "Slurm drains" until_true node_is 'drain*'
  two=$(batch --wrap 'exit 0')
  frozen_and_back "slurm:$one"
  holds "a new job does not come" pending "$two"
  holds "pinfold takes back no node that others drained" "$pinfold" wlm sync slurm --node "$NODE_NAME"
  holds "it stays drained" node_is 'drain*'
  scontrol update NodeName=$NODE_NAME State=RESUME
  holds "taken back, the node runs the new job" until_true ended_well "$two"
  say "Slurm: the host is drained by pinfold"
  background "$work/sync.log" "$pinfold" wlm sync slurm --node "$NODE_NAME" --every 1s
  sync=${started[0]}
  holds "the host is drained" "$pinfold" admin drain
  holds "Slurm drains the node" until_true node_is 'drain*'
  holds "its reason says by what" tells "$(scontrol show node $NODE_NAME)" 'Reason=pinfold: drained'
  two=$(batch --wrap 'exit 0')
  holds "the job that ran runs on" is "slurm:$one" running
  holds "a new job does not come" pending "$two"
  holds "the host is drained no longer" "$pinfold" admin undrain
  holds "the node takes the new job" until_true ended_well "$two"
  holds "the node is drained no longer" until_true node_is 'mixed*'
  end "$sync"
  scancel "$one"
  holds "the job is gone" until_true is "slurm:$one" exited
}

# The manager's own limit of memory: what it calls the end of a job that goes beyond it.
beyond_memory() {
  local job
  job=$(batch --no-requeue --mem=60 --wrap 'exec perl -e "\$held = q(x) x (300 << 20); sleep 3000"')
  until_true left "$job" && echo "$(field "$job" JobState) $(field "$job" ExitCode)"
}
# the_same_beyond_memory WORDS: with pinfold it ends as without, and without as these words say.
the_same_beyond_memory() {
  local with without
  cp "$work/slurm/plugstack.conf" "$work/hooked"
  cp "$work/before" "$work/slurm/plugstack.conf"
  without=$(beyond_memory)
  cp "$work/hooked" "$work/slurm/plugstack.conf"
  with=$(beyond_memory)
  holds "Slurm ends it ($without)" tells "$without" "$1"
  holds "with pinfold it ends the same" same "$with" "$without"
  holds "nothing of it is left" until_true count running 0
}
slurm_memory_limit() {
  say "Slurm: a job goes beyond Slurm's own limit of memory, which Slurm watches"
  the_same_beyond_memory 'FAILED 0:9'
  [ "$quick" = 0 ] || return
  if [ ! -w /sys/fs/cgroup/memory/cgroup.procs ] || [ ! -w /sys/fs/cgroup/freezer/cgroup.procs ]; then
    skipped+=("Slurm's control groups, as those of the first generation are not here or not writable")
    return
  fi
  slurm_in_groups
}

# Slurm with control groups of its own: the kernel ends what goes beyond memory, and a job stays in its groups.
slurm_in_groups() {
  local one groups pid
  say "Slurm: the same in control groups that Slurm makes"
  cp "$SLURM_CONF" "$work/conf"
  printf 'ProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup,task/affinity\nJobAcctGatherParams=NoOverMemoryKill\n' >>"$SLURM_CONF"
  printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=yes\n' >"$work/slurm/cgroup.conf"
  slurm_restarted
  the_same_beyond_memory OUT_OF_MEMORY
  one=$(batch --wrap 'sleep 3000')
  holds "a job runs" until_true is "slurm:$one" running
  pid=$(pid_of "slurm:$one") groups=$(cat "/proc/$(pid_of "slurm:$one")/cgroup")
  holds "it is in Slurm's groups" tells "$groups" "memory:/slurm_$NODE_NAME/uid_$(id -u)/job_$one/step_batch"
  frozen_and_back "slurm:$one"
  holds "it is still there" same "$(cat "/proc/$pid/cgroup")" "$groups"
  "$pinfold" suspend "slurm:$one"
  holds "it is suspended" until_true is "slurm:$one" frozen
  holds "a frozen one is cancelled by Slurm" scancel "$one"
  holds "its process ends" until_true gone "$pid"
  holds "it is gone from Slurm" until_true left "$one"
  one=$(batch --wrap 'sleep 3000')
  holds "a job runs" until_true is "slurm:$one" running
  holds "Slurm suspends it" scontrol suspend "$one"
  holds "it is suspended" until_true slurm_is "$one" SUSPENDED
  holds "Slurm resumes it" scontrol resume "$one"
  holds "it runs" until_true slurm_is "$one" RUNNING
  scancel "$one"
  holds "it is gone from pinfold" until_true is "slurm:$one" exited
  cp "$work/conf" "$SLURM_CONF"
  slurm_restarted
  # Slurm leaves them behind.
  find /sys/fs/cgroup/*/"slurm_$NODE_NAME" -depth -type d -exec rmdir {} \; 2>/dev/null
  holds "nothing is left of Slurm's groups" sh -c "! ls -d /sys/fs/cgroup/*/slurm_$NODE_NAME 2>/dev/null | grep ."
}
slurm_restarted() {
  end "$slurmd"
  end "$slurmctld"
  slurmctld_up "$work/slurm" && slurmd_up "$work/slurm" || holds "Slurm is restarted" false
}

# slurm_requeued STATE: Slurm ends a job that runs, is frozen or waits here, and runs it again.
slurm_requeued() {
  local one pid others=()
  say "Slurm: a job that is $1 is requeued"
  if [ "$1" = queued ]; then
    others=("$(batch --wrap 'sleep 3000')" "$(batch --wrap 'sleep 3000')")
    holds "two others run" until_true count running 2
  fi
  one=$(batch --requeue --wrap 'sleep 3000')
  if [ "$1" = frozen ]; then
    holds "it runs" until_true is "slurm:$one" running
    "$pinfold" suspend "slurm:$one"
  fi
  holds "it is $1" until_true is "slurm:$one" "$1"
  pid=$(pid_of "slurm:$one")
  holds "Slurm requeues it" scontrol requeue "$one"
  [ -z "$pid" ] || holds "its process ends" until_true gone "$pid"
  holds "pinfold has that run no longer" until_true is "slurm:$one" exited
  [ "$1" != queued ] || scancel "${others[@]}"
  # slurmd takes no job again in the second in which it ended it, which is why Slurm itself waits for two minutes.
  sleep 3
  holds "Slurm takes it again" until_true sh -c "scontrol update JobId=$one StartTime=now"
  holds "it runs again, by the same name" until_true is "slurm:$one" running
  holds "Slurm counts that" tells "$(scontrol show job "$one")" 'Restarts=1'
  scancel "$one"
  holds "it is cancelled" until_true is "slurm:$one" exited
  holds "nothing runs" until_true count running 0
}

# refused_by_slurm OPTION=TEXT: srun takes no such text.
refused_by_slurm() { ! srun -n1 "$1" true >/dev/null 2>&1; }
slurm_hostile() {
  local option text job
  say "Slurm: users who mean harm"
  for option in priority class mem tmp; do
    for text in "\$(touch $work/owned)" "\`touch $work/owned\`" "1;touch $work/owned" "1|touch $work/owned" '' ' ' '--backfill' \
      $'1\n--priority=16' $'primary\nTMPDIR=/' 'primary backfill' '%s%n' '../../etc' $'\xff\xfe'; do
      holds "--pinfold-$option=$text is refused" refused_by_slurm "--pinfold-$option=$text"
    done
    # No word of a command line can be that long; a line of a script can.
    { printf '#!/bin/sh\n#SBATCH --pinfold-%s=' $option; head -c 1M /dev/zero | tr '\0' 1; printf '\ntouch %s/owned\n' "$work"; } >"$work/long.sh"
    holds "a megabyte for --pinfold-$option is refused" sh -c "! sbatch -o /dev/null '$work/long.sh' >/dev/null 2>&1"
  done
  for text in $'a\nb' "--backfill" "\$(touch $work/owned)" $'\x1b[2J' "$(head -c 300 /dev/zero | tr '\0' x)"; do
    job=$(batch -J "$text" --wrap 'exit 0')
    holds "a job of an odd name runs" until_true ended_well "$job"
    holds "and is known" until_true is "slurm:$job" exited
  done
  holds "nothing came of it" test ! -e "$work/owned"
}
