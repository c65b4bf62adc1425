# Grid Engine on the lab's full machine, and jobs of its that hand theirs to pinfold; read by the suite.
# shellcheck shell=sh
echo "== Grid Engine beside it"

# The cell that its package makes.
grid_up() {
  # Past the package's wrappers, which find out anew each time what kind of machine this is.
  export SGE_ROOT=/var/lib/gridengine SGE_CELL=default SGE_ARCH=lx-amd64 PATH="/usr/lib/gridengine:$PATH"
  # It goes by names of addresses, and the loopback's is another one than the machine's.
  echo "lab localhost" >$SGE_ROOT/$SGE_CELL/common/host_aliases
  systemctl start gridengine-master
}

# This machine as its one host, and a queue of all PUs.
grid_host() {
  qconf -as lab
  # It looks for all that descends from a job by a group that each has of its own. Until that is tried it does not, so that
  # what is handed over is for pinfold to end.
  SGE_SINGLE_LINE=1 qconf -sconf | sed -e 's/^execd_params.*/execd_params ENABLE_ADDGRP_KILL=false/' \
    -e 's/^load_report_time.*/load_report_time 00:00:05/' >global
  qconf -Mconf global
  qconf -ssconf | sed -e 's/^\(schedule_interval\) .*/\1 0:0:1/' -e 's/^\(flush_[a-z]*_sec\) .*/\1 1/' >scheduler
  qconf -Msconf scheduler
  cat >environment <<P
pe_name smp
slots 999
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule \$pe_slots
control_slaves FALSE
job_is_first_task TRUE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
P
  qconf -Ap environment
  qconf -sq | sed -e 's/^qname .*/qname all.q/' -e 's/^hostlist .*/hostlist lab/' -e "s/^slots .*/slots $(nproc)/" \
    -e 's/^pe_list .*/pe_list smp/' -e 's/^load_thresholds .*/load_thresholds NONE/' -e 's/^notify .*/notify 00:00:05/' >queue
  qconf -Aq queue
  systemctl start gridengine-exec
}

grid() { runuser -u worker -- env HOME=/home/worker "$@"; }
# grid_begin OPTION...: hands the file job.sh to Grid Engine, which says its number.
grid_begin() {
  rm -f out err
  chown -R worker: .
  grid qsub -terse -cwd -o out -e err -S /bin/sh -v "PINFOLD_SOCKET=$socket" "$@" job.sh
}
# grid_job COMMAND OPTION...: waits for it; what it says is in the file `out`, and its exit status is Grid Engine's.
grid_job() {
  echo "$1" >job.sh
  shift
  grid_begin -sync y "$@" >submitted 2>&1
}
# grid_step COMMAND OPTION...: one that goes on until it is ended, and until it runs.
grid_step() {
  echo "$1" >job.sh
  shift
  before=$(running)
  step=$(grid_begin "$@")
  until_is "a job runs in it" $((before + 1)) running
}
# What Grid Engine says of a job that is over.
grid_said() { qacct -j "$1" | sed -n "s/^$2  *//p" | tr -d ' '; }
grid_left() { grid qstat -u '*' | wc -l; }

grid_work() {
  grid_job "pinfold run sh -c 'exit 3'"
  check "the exit status of a job that it hands over" 3 $?
  number=$(sed -n 's/^Job \([0-9]*\) exited .*/\1/p' submitted)
  until_is "as it is in its accounting" 3 grid_said "$number" exit_status
  # shellcheck disable=SC2016
  bound='cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/memory.max'
  echo "$allowed; cut -d / -f 1-4 /proc/self/cgroup; $bound; id -un" >inside.sh
  grid_job "$allowed; pinfold run sh inside.sh; pinfold run --mem-limit 32MiB sh inside.sh" -pe smp 2 -binding linear:1 -l h_vmem=96M
  check "and of one that looks around" 0 $?
  both=$(tr '\n' ' ' <out)
  echo "Grid Engine's PUs, the job's, its group and its bound: $both"
  [ -s err ] && cat err
  check "it stays on the PUs that Grid Engine gave" 0 "$(outside "$(word 2 "$both")" "$(word 1 "$both")")"
  check "Grid Engine gave fewer than there are" 1 "$([ "$(pus "$(word 1 "$both")" | wc -l)" -lt "$(nproc)" ] && echo 1)"
  check "in systemd's group for jobs" "0::$slice/pinfold-jobs.service/pinfold" "$(word 3 "$both")"
  check "and within Grid Engine's memory, that of both slots" 201326592 "$(word 4 "$both")"
  check "as its user" worker "$(word 5 "$both")"
  check "with a bound of its own that is smaller" 33554432 "$(word 8 "$both")"
  grid_job "pinfold run --mem 128MiB true" -l h_vmem=96M
  check "more memory than Grid Engine gave is refused" 5 $?
  grid_job "pinfold run --cores 2 true" -binding linear:1
  check "and more cores" 5 $?

  # Somebody else is at home where it is to run, and would not be in its way elsewhere.
  home=$(until_made at-home)
  until_is "a job runs" running said "$home" state
  at=$(of_job "$home" cpuset.cpus)
  # shellcheck disable=SC2016
  grid_job 'echo $SGE_BINDING | tr " " ,; '"$allowed; pinfold run sh inside.sh" -binding env linear:1
  both=$(tr '\n' ' ' <out)
  echo "the PUs that Grid Engine names, those that it leaves, and the job's: $both"
  check "somebody is at home on the PUs that Grid Engine names" 0 "$(outside "$at" "$(word 1 "$both")")"
  check "it stays there" 0 "$(outside "$(word 3 "$both")" "$(word 1 "$both")")"
  touch "$kept/at-home"
  waited "$home" 9

  # Without the host's daemon, one of the user's own within the job.
  grid_job "$allowed; unset PINFOLD_SOCKET; pinfold run sh -c '$allowed'" -binding linear:1
  private=$(tr '\n' ' ' <out)
  echo "with a daemon of the user's own: $private"
  check "with a daemon of the user's own it stays there" 0 "$(outside "$(word 2 "$private")" "$(word 1 "$private")")"
}

grid_ends() {
  # Told beforehand, it has a while to end by itself.
  grid_step "exec pinfold run sh -c 'trap \"exit 4\" USR2; until [ -e /nowhere ]; do sleep 0.2; done'" -notify
  grid qdel "$step" >/dev/null
  until_is "deleted in Grid Engine, it is over here too" 0 running
  until_is "having ended in its own way" 4 grid_said "$step" exit_status
  # Else it is killed; what left the process group that Grid Engine kills is over all the same.
  grid_step "exec pinfold run sh -c 'setsid --wait sleep 100000'"
  grid qdel "$step" >/dev/null
  until_is "as is one that is killed at once" 0 running
  until_is "with all of its" 0 pgrep --count --exact sleep
  until_is "Grid Engine knows of no more" 0 grid_left

  # The daemon dies meanwhile: Grid Engine hears how the job ended all the same.
  grid_step "pinfold run sh -c 'until [ -e $kept/grid ]; do sleep 0.2; done; exit 9'"
  systemctl kill --signal=KILL --kill-whom=main pinfoldd
  touch "$kept/grid"
  until_is "the exit status when the daemon dies meanwhile" 9 grid_said "$step" exit_status
  until_is "the daemon is back" active systemctl is-active pinfoldd
  until_is "and nothing is left" 0 running
}

# What a job leaves behind when it ends, where Grid Engine looks for that, as it does unless it is told not to.
grid_leaves() {
  sed -e 's/^execd_params.*/execd_params NONE/' global >looking
  mv looking global
  qconf -Mconf global >/dev/null 2>&1
  systemctl restart gridengine-exec
  until_is "its host is there again" 1 sh -c "qstat -f | grep -c 'lx-amd64 *$'"
  grid_job "pinfold submit -- sleep 100000"
  check "a job that leaves one behind" 0 $?
  until_is "which is over with it" 0 running
  until_is "with all of its" 0 pgrep --count --exact sleep
}

grid_down() {
  cd "$kept" || return
  systemctl stop gridengine-exec gridengine-master
  unset SGE_ROOT SGE_CELL SGE_ARCH
  PATH=${PATH#/usr/lib/gridengine:}
}

mkdir -p /home/worker/grid
cd /home/worker/grid || return
grid_up
check "its master starts" 0 $?
until_is "and answers" lab qconf -sh
grid_host >said 2>&1
check "its host's service starts" 0 $?
until_is "its host is there" 1 sh -c "qstat -f | grep -c 'lx-amd64 *$'"
if [ "$found" = 1 ]; then
  grid_work
  grid_ends
  grid_leaves
else
  cat said
  qstat -f
  tail -n 20 /var/spool/gridengine/qmaster/messages /var/spool/gridengine/execd/*/messages /tmp/*messages*
fi
grid_down
