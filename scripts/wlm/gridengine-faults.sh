# What must hold in Grid Engine when daemons end, are upgraded or restarted, the host is drained, memory runs out, or a job begins
# anew: to be sourced by wlm.sh.

gridengine_faults() {
  gridengine_upgraded
  gridengine_drained
  gridengine_memory_limit
  if [ "$quick" = 0 ]; then
    # It notices after a minute or two which jobs ended while it was away.
    gridengine_execd_dies
    gridengine_shepherd_dies
    gridengine_requeued running
    gridengine_requeued frozen
    gridengine_hostile
  fi
}

# Four jobs: one runs, one is frozen, one has the slot of that, and one waits. Each ends when the file `end` is there.
four_grid_jobs() {
  local script="until [ -e $work/end ]; do sleep 0.1; done; exit 0"
  rm -f "$work/end"
  ran=$(grid "$script") cold=$(grid "$script")
  holds "two run" until_true count running 2
  holds "one is suspended" "$pinfold" suspend "sge:$cold"
  next=$(grid "$script")
  holds "the next one has its slot" until_true is "sge:$next" running
  waits=$(grid "$script")
  holds "another one waits" until_true is "sge:$waits" queued
  frozen_pid=$(pid_of "sge:$cold")
  holds "the suspended one is stopped" until_true stopped "$frozen_pid"
}
four_grid_as_they_were() {
  is "sge:$ran" running && is "sge:$cold" frozen && is "sge:$next" running && is "sge:$waits" queued && stopped "$frozen_pid"
}
# ended_with JOB STATUS: so Grid Engine accounts for it.
ended_with() { [ "$(used "$1" exit_status)" = "$2" ]; }
four_grid_end() {
  local one
  : >"$work/end"
  holds "what waited has its turn" until_true ended_with "$waits" 0
  holds "what was frozen is resumed" "$pinfold" resume "sge:$cold"
  for one in "$ran" "$next" "$cold"; do holds "Grid Engine hears of the end of job $one" until_true ended_with "$one" 0; done
  holds "pinfold has none of them" until_true count running 0
}

gridengine_execd_dies() {
  local ran cold next waits frozen_pid
  say "Grid Engine: its execution daemon is killed and started again"
  four_grid_jobs
  kill -KILL "$sge_execd"
  holds "it is gone" until_true gone "$sge_execd"
  holds "all jobs are as they were" four_grid_as_they_were
  sge_execd_up "$work/sge"
  holds "all jobs are as they were afterwards" four_grid_as_they_were
  four_grid_end
}

gridengine_upgraded() {
  local ran cold next waits frozen_pid
  say "Grid Engine: pinfold is upgraded while jobs wait, run and are frozen"
  four_grid_jobs
  end "$daemon"
  holds "the next daemon is up" daemon_up
  holds "all jobs are as they were" until_true four_grid_as_they_were
  four_grid_end
}

# The load sensor, and what of the printed lines is edited by hand: complexes, and the configuration, here that of all hosts.
gridengine_sensor() {
  local sensor
  { qconf -sc; sed -n 's/^qconf -mc   # add: //p' "$work/lines" | tr ';' '\n'; } >"$SGE_ROOT/complexes"
  qconf -Mc "$SGE_ROOT/complexes" || return 1
  sensor=$(sed -n 's/^qconf -mconf HOST   # add: load_sensor //p' "$work/lines")
  SGE_SINGLE_LINE=1 qconf -sconf | sed "s#^load_sensor.*#load_sensor $sensor#" >"$SGE_ROOT/global"
  qconf -Mconf "$SGE_ROOT/global" || return 1
  sed -n "s/^\(qconf .* load_thresholds .*\) QUEUE\$/\1 all.q/p" "$work/lines" >"$SGE_ROOT/commands"
  grep -q draining "$SGE_ROOT/commands" && sh -e "$SGE_ROOT/commands"
}
sensed() { qhost -F "$1" 2>/dev/null | grep -q ":$1=$2"; }
alarmed() { qstat -f -q all.q 2>/dev/null | grep -q '^all\.q.* a[a-zA-Z]* *$'; }
pending_in_grid() { qstat -s p 2>/dev/null | grep -q "^ *$1 " && [ -z "$(of "sge:$1" job)" ]; }
gridengine_drained() {
  local one two
  say "Grid Engine: the host is drained by pinfold"
  holds "the load sensor is set, as it is printed" gridengine_sensor >"$work/sensor" 2>&1
  holds "Grid Engine hears of it" until_true sensed pinfold_draining 0.000000
  one=$(grid 'sleep 3000')
  holds "a job runs" until_true is "sge:$one" running
  holds "the host is drained" "$pinfold" admin drain
  holds "the queue is closed" until_true alarmed
  two=$(grid 'exit 0')
  holds "a new job does not come" until_true pending_in_grid "$two"
  holds "the job that ran runs on" is "sge:$one" running
  holds "the host is drained no longer" "$pinfold" admin undrain
  holds "the new job has its turn" until_true ended_with "$two" 0
  qdel "$one" >/dev/null
  holds "the job is gone" until_true is "sge:$one" exited
}

# Grid Engine's own limit: what it accounts for the end of a job that goes beyond it. In one step, in one process: the kernel
# refuses that, and no daemon finds the job beyond its limit meanwhile.
beyond_grid_memory() {
  local job
  cat >"$work/beyond.sh" <<'JOB'
#!/bin/sh
exec perl -e '$size = 900 << 20; $held = q(x) x $size'
JOB
  chmod 755 "$work/beyond.sh"
  job=$(grid -l h_vmem=300M "$work/beyond.sh")
  until_true used "$job" exit_status && echo "$(used "$job" failed) $(used "$job" exit_status)"
}
gridengine_memory_limit() {
  local with without
  say "Grid Engine: a job goes beyond Grid Engine's own limit of memory"
  qconf -mattr queue starter_method NONE all.q >/dev/null
  without=$(beyond_grid_memory)
  qconf -mattr queue starter_method "$work/hooks-ge/pinfold-starter.sh" all.q >/dev/null
  holds "jobs come to pinfold again" until_true comes_to_pinfold
  with=$(beyond_grid_memory)
  holds "it is ended ($without)" sh -c "[ '$without' != '0 0' ]"
  holds "with pinfold it ends the same" same "$with" "$without"
}

# The process of Grid Engine's that looks after a job is killed while the job is frozen: pinfold is the only one that has it.
gridengine_shepherd_dies() {
  local one pid shepherd
  say "Grid Engine: the shepherd of a job is killed while the job is frozen"
  one=$(grid 'sleep 3000')
  holds "a job runs" until_true is "sge:$one" running
  "$pinfold" suspend "sge:$one"
  holds "it is frozen" until_true is "sge:$one" frozen
  pid=$(pid_of "sge:$one") shepherd=$(parent "$(pid_of "sge:$one")")
  holds "its shepherd is its parent" grep -q shepherd "/proc/$shepherd/comm"
  kill -KILL "$shepherd"
  holds "Grid Engine calls the job over" until_true grid_left "$one"
  holds "pinfold ends what is left" "$pinfold" wlm over "sge:$one"
  holds "its process ends" until_true gone "$pid"
  holds "it is gone from pinfold" until_true is "sge:$one" exited
}

# gridengine_requeued STATE: Grid Engine ends a job that runs or is frozen, and runs it again.
gridengine_requeued() {
  local one pid
  say "Grid Engine: a job that is $1 is requeued"
  one=$(grid -r y 'sleep 3000')
  holds "it runs" until_true is "sge:$one" running
  [ "$1" = running ] || "$pinfold" suspend "sge:$one"
  holds "it is $1" until_true is "sge:$one" "$1"
  pid=$(pid_of "sge:$one")
  holds "Grid Engine requeues it" qmod -rj "$one"
  holds "its process ends" until_true gone "$pid"
  holds "it runs again, by the same name" until_true is "sge:$one" running
  qdel "$one" >/dev/null
  holds "it is deleted" until_true is "sge:$one" exited
}

# gridengine_verifies URL: Grid Engine asks that verifier about all jobs.
gridengine_verifies() {
  SGE_SINGLE_LINE=1 qconf -sconf | sed "s#^jsv_url.*#jsv_url $1#" >"$SGE_ROOT/global"
  holds "Grid Engine's verifier is $1" qconf -Mconf "$SGE_ROOT/global" >/dev/null
}
gridengine_hostile() {
  local text one jsv=$work/hooks-ge/pinfold-jsv.sh
  say "Grid Engine: users who mean harm"
  for text in "\$(touch $work/owned)" "\`touch $work/owned\`" '1 2' '%s%n' '*' $'1\n' $'1\nENV ADD PINFOLD_ASK_MEM 1' $'1\nBEGIN' \
    $'1\nQUIT' $'1\nPARAM ac x=1' $'1\r' $'1\x1b[2J' $'1\x7f'; do
    for one in priority class mem tmp; do
      holds "pinfold_$one=$text is refused" sh -c '! qsub -jsv "$1" -ac "$2" -b y true >/dev/null 2>&1' - "$jsv" "pinfold_$one=$text"
    done
    # Past the verifier, by the variables that it would set.
    one=$(grid -v "PINFOLD_ASK_CLASS=$text,PINFOLD_ASK_MEM=$text" 'exit 4')
    holds "as a variable it does no harm" until_true ended_with "$one" 4
  done
  # For all jobs it is one process: a second answer to one job would be the next one's.
  gridengine_verifies "script:$jsv"
  for text in 1 2; do
    holds "it is refused by that of all jobs" sh -c '! qsub -ac "$1" -b y true >/dev/null 2>&1' - $'pinfold_priority=1\nBEGIN'
    one=$(grid -ac pinfold_priority=3 'sleep 3000')
    holds "the next job is taken" until_true is "sge:$one" running
    holds "and verified" same "$(of "sge:$one" priority)" 3
    qdel "$one" >/dev/null
    holds "it ends" until_true is "sge:$one" exited
  done
  gridengine_verifies none
  { printf '#!/bin/sh\n#$ -ac pinfold_mem='; head -c 1M /dev/zero | tr '\0' 1; printf '\ntouch %s/owned\n' "$work"; } >"$work/long.sh"
  holds "a megabyte is refused" sh -c '! qsub -jsv "$1" -o /dev/null -j y "$2" >/dev/null 2>&1' - "$jsv" "$work/long.sh"
  holds "nothing came of it" test ! -e "$work/owned"
}
