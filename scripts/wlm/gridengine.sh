# What must hold with a real Grid Engine: to be sourced by wlm.sh.
grid_left() { ! qstat -u '*' 2>/dev/null | awk '{ print $1 }' | grep -qx "$1"; }
grid() { qsub -terse -q all.q -N job -o "$work/grid.out" -j y -b y "$@"; }
used() { qacct -j "$1" 2>/dev/null | awk -v key="$2" '$1 == key { sub(/s$/, "", $2); print $2; found = 1; exit } END { exit !found }'; }
# The execution daemon hears of a queue's new configuration later.
comes_to_pinfold() {
  local job
  job=$(grid true) && until_true grid_left "$job" && [ -n "$(of "sge:$job" job)" ]
}

gridengine() {
  gridengine_up "$work/sge" 4 || { holds "Grid Engine starts" false; tail -n 5 "$work"/sge/log/*; return; }
  gridengine_installed
  gridengine_waits
  gridengine_faults
  if [ "$quick" = 0 ]; then
    gridengine_arrays
    gridengine_asks
    gridengine_without_daemon
    gridengine_accounting
  fi
  gridengine_advised
  gridengine_uninstalled
}

# Hooks that a queue names, or a job that has begun with them, are not removed.
gridengine_uninstalled() {
  local one
  uninstall() { "$pinfold" wlm uninstall gridengine --to "$work/hooks-ge" 2>"$work/uninstall"; }
  one=$(grid 'sleep 3000')
  holds "a job runs" until_true is "sge:$one" running
  holds "hooks that the queue names stay" fails uninstall
  holds "all of them" test -x "$work/hooks-ge/pinfold-starter.sh" -a -x "$work/hooks-ge/pinfold-epilog.sh"
  holds "the lines that take them back are taken" gridengine_unhooked "$work/uninstall"
  holds "the queue names no hook" sh -c "! qconf -sq all.q | grep -qF '$work/hooks-ge'"
  holds "hooks of a job that has begun stay" fails uninstall
  holds "it is named: $(cat "$work/uninstall")" grep -q "wait until job $one.1 is over" "$work/uninstall"
  holds "the job still runs" is "sge:$one" running
  holds "it is deleted by its own terminate method" qdel "$one"
  holds "it is gone from Grid Engine" until_true grid_left "$one"
  holds "hooks are removed" until_true uninstall
  holds "nothing is left of the hooks" test ! -e "$work/hooks-ge"
  one=$(grid 'exit 3')
  holds "a job runs without the hooks" until_true used "$one" exit_status
  holds "with its own status" same "$(used "$one" exit_status)" 3
}

gridengine_installed() {
  local a b out
  a=$(grid 'exit 3')
  holds "hooks are written" "$pinfold" wlm install gridengine --to "$work/hooks-ge" >"$work/lines"
  holds "a job ends without pinfold" until_true used "$a" exit_status
  holds "the printed commands are taken" gridengine_hooked "$work/lines" all.q
  holds "they are found" until_true detected 'Grid Engine  SGE .*its jobs come to pinfold'
  holds "jobs come to pinfold" until_true comes_to_pinfold
  out=$("$pinfold" wlm check gridengine 2>/dev/null)
  holds "a check says that all holds: $out" test "$?" = 0
  b=$(grid 'exit 3')
  holds "a job ends with pinfold" until_true used "$b" exit_status
  holds "Grid Engine tells the same status" same "$(used "$b" exit_status)" "$(used "$a" exit_status)"
}

gridengine_waits() {
  local one two three out
  say "Grid Engine: more jobs than cores"
  one=$(grid 'sleep 3000') two=$(grid 'sleep 3000')
  holds "two run" until_true count running 2
  three=$(grid 'sleep 3000')
  holds "one waits" until_true count queued 1
  holds "Grid Engine has it as running" until_true sh -c "qstat -s r | grep -q '^ *$three '"
  holds "why says what it waits for" tells "$("$pinfold" why "sge:$three")" 'all 2 slots are taken'
  holds "one that waits is deleted" qdel "$three"
  holds "it is gone from Grid Engine" until_true grid_left "$three"
  holds "and from pinfold" until_true is "sge:$three" exited
  frozen_and_back "sge:$one"
  holds "qmod suspends" qmod -s "$one"
  holds "pinfold freezes it" until_true is "sge:$one" frozen
  holds "qmod lets it go on" qmod -us "$one"
  holds "pinfold lets it go on" until_true is "sge:$one" running
  holds "one is suspended" "$pinfold" suspend "sge:$one"
  holds "it is frozen" until_true is "sge:$one" frozen
  out=$(pid_of "sge:$one")
  holds "a frozen one is deleted" qdel "$one"
  holds "its process ends" until_true gone "$out"
  holds "it is gone from Grid Engine" until_true grid_left "$one"
  holds "one that runs is deleted" qdel "$two"
  holds "it is gone from pinfold" until_true is "sge:$two" exited
}

gridengine_arrays() {
  local one out
  out=$(printf 'x\nquit\n' | "$work/hooks-ge/pinfold-load.sh")
  holds "the load sensor tells free slots" tells "$out" ':pinfold_slots:2'
  one=$(qsub -terse -q all.q -N tasks -t 1-2 -o /dev/null -j y -b y 'sleep 3000')
  one=${one%%.*}
  holds "each task of an array has a name" until_true is "sge:$one.2" running
  holds "the other one, too" until_true is "sge:$one.1" running
  holds "the name of all is refused, as it means several" sh -c "! '$pinfold' suspend sge:$one 2>/dev/null"
  qdel "$one" >/dev/null
  holds "both end" until_true is "sge:$one.1" exited
}

# What a job asks of pinfold, by the submission verifier; and what is done after it.
gridengine_asks() {
  local one jsv=$work/hooks-ge/pinfold-jsv.sh
  say "Grid Engine: what jobs ask of pinfold"
  holds "an epilog is set" qconf -mattr queue epilog "$work/hooks-ge/pinfold-epilog.sh \$job_id" all.q >/dev/null
  one=$(grid -jsv "$jsv" -ac pinfold_priority=3,pinfold_class=backfill,pinfold_mem=64M,other=x 'sleep 3000')
  holds "a job with wishes runs" until_true is "sge:$one" running
  holds "they got through" same "$(of "sge:$one" priority,class)" "3backfill"
  qdel "$one" >/dev/null
  holds "it ends" until_true grid_left "$one"
  one=$(grid -l h_vmem=1G 'exit 0')
  holds "a job with h_vmem ends" until_true used "$one" exit_status
  holds "that memory is what it asks for" tells "$("$pinfold" report "sge:$one" --json)" '"claim_bytes":1073741824'
  holds "its name is its own" tells "$("$pinfold" report "sge:$one" --json)" '"name":"job"'
  one=$(grid -jsv "$jsv" 'exit 0')
  holds "one without wishes runs as ever" until_true used "$one" exit_status
  for one in 'pinfold_mem=1;touch' 'pinfold_class=other' 'pinfold_priority=' 'pinfold_pus=3'; do
    holds "$one is refused" sh -c "! qsub -jsv '$jsv' -ac '$one' -b y true >/dev/null 2>&1"
  done
}

gridengine_without_daemon() {
  local one
  end "$daemon"
  rm -f "$work/grid.out"
  one=$(grid 'echo it is done')
  holds "without a daemon a job runs" until_true grid_left "$one"
  holds "it did what it was to do, and says that it is unmanaged" sh -c "grep -q '^it is done' '$work/grid.out' && grep -q 'runs unmanaged' '$work/grid.out'"
  daemon_up
}

# A job in the queue with hooks or in the one without; what it said of itself, and what Grid Engine says.
gridengine_job() {
  local job queue=all.q
  [ "$1" = with ] || queue=plain.q
  rm -f "$work/account.out"
  job=$(qsub -terse -q $queue -N account -o "$work/account.out" -j y "$work/work.sh")
  until_true used "$job" exit_status
  echo "$(grep ^own "$work/account.out") $(used "$job" cpu) $(used "$job" ru_wallclock)"
}

gridengine_accounting() {
  say "Grid Engine: what qacct tells of a job with pinfold and without"
  # No hook is added to this one.
  gridengine_queue plain.q 4 >/dev/null
  holds "there is a queue without hooks" until_true sh -c "qstat -f -q plain.q -u '*' | grep -q 'lx-amd64 *\$'"
  same_accounts gridengine_job "$work/gridengine.accounts"
}
