# Starts real workload managers on loopback, each in a directory of its own, and ends them: to be sourced. Nothing below /etc is
# touched, and nothing is left: what was started is ended by its number, and what that started by the directory in its
# environment. PATIENCE is how long anything may take, in seconds; NODE_CORES how many cores the host of theirs has.
PATH=/usr/sbin:/sbin:$PATH
started=() # numbers of what was started, the last one first

say() { echo "wlm: $*"; }

# until_true COMMAND...: waits until it holds.
until_true() {
  local deadline=$((SECONDS + ${PATIENCE:-60}))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || { say "still not: $*"; return 1; }
    sleep 0.05
  done
}

# background LOG COMMAND...: in a session of its own; its number is the first of `started`.
background() {
  local log=$1
  shift
  setsid "$@" >"$log" 2>&1 </dev/null &
  started=("$!" "${started[@]}")
  disown "$!"
}

# end NUMBER: ends one that was started here.
end() {
  kill "$1" 2>/dev/null || return 0
  for _ in $(seq $((10 * ${PATIENCE:-60}))); do
    kill -0 "$1" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL "$1" 2>/dev/null
}

end_all() {
  local pid
  for pid in "${started[@]}"; do end "$pid"; done
  started=()
}

# free_ports COUNT: the first of so many ports in a row that nobody listens on; none of those that the kernel gives away.
free_ports() {
  local first taken port
  taken=$(awk 'FNR > 1 { sub(/.*:/, "", $2); print $2 }' /proc/net/tcp /proc/net/tcp6 2>/dev/null | sort -u)
  while :; do
    first=$((20000 + RANDOM % 10000))
    for port in $(seq "$first" $((first + $1 - 1))); do
      grep -qx "$(printf %04X "$port")" <<<"$taken" && continue 2
    done
    echo "$first"
    return
  done
}

# left_behind DIR: numbers of processes that have DIR in their environment or command line, but those of this session.
left_behind() {
  local found pid session
  session=$(cut -d ' ' -f 6 "/proc/$$/stat")
  for found in $(grep -lsF -- "$1" /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | cut -d / -f 3 | sort -un); do
    pid=$(sed 's/^.*) //' "/proc/$found/stat" 2>/dev/null | cut -d ' ' -f 4)
    [ -z "$pid" ] || [ "$pid" = "$session" ] || echo "$found"
  done
}
nothing_left_behind() { [ -z "$(left_behind "$1")" ]; }

# managers_down DIR: ends the jobs of the managers that are up, then the managers; 1: something was left and had to be killed.
managers_down() {
  local tries pid
  if [ -n "${SLURM_CONF:-}" ] && scancel -u "$(id -un)" 2>/dev/null; then
    for tries in $(seq 60); do
      [ -n "$(squeue -h 2>/dev/null)" ] || break
      [ "$tries" = 20 ] && scancel -s KILL -u "$(id -un)" 2>/dev/null
      sleep 0.5
    done
  fi
  if [ -n "${SGE_ROOT:-}" ] && qdel -u '*' >/dev/null 2>&1; then
    for tries in $(seq 60); do
      [ -n "$(qstat -u '*' 2>/dev/null)" ] || break
      sleep 0.5
    done
  fi
  end_all
  # Nobody is to wait for a manager that is gone.
  unset SLURM_CONF SGE_ROOT
  until_true nothing_left_behind "$1" && return 0
  for pid in $(left_behind "$1"); do
    say "left behind: $pid $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
    kill -KILL "$pid" 2>/dev/null
  done
  return 1
}

# ---------------------------------------------------------------- Slurm
slurm_conf() {
  local dir=$1 port=$2 jobs_per_core=$3
  cat <<CONF
ClusterName=pinfold
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.sock
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmdSpoolDir=$dir/spool/%n
StateSaveLocation=$dir/state
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.log
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=${SLURM_MEM_PER_CPU:-10}
SchedulerParameters=batch_sched_delay=0,sched_interval=1
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobCompType=jobcomp/filetxt
JobCompLoc=$dir/log/jobs
SlurmdParameters=config_overrides
KillWait=10
PlugStackConfig=$dir/plugstack.conf
${SLURM_LINES:-}
NodeName=${NODE_NAME:-here} NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((port + 2)) Sockets=1 CoresPerSocket=${NODE_CORES:-2} ThreadsPerCore=1 RealMemory=2000
PartitionName=main Nodes=${NODE_NAME:-here} Default=YES MaxTime=INFINITE State=UP OverSubscribe=$jobs_per_core
CONF
}

# What sacct asks: a database of its own.
slurm_accounting_up() {
  local dir=$1 port=$2
  mariadb-install-db --no-defaults --datadir="$dir/db" --auth-root-authentication-method=normal --skip-test-db \
    --user="$(id -un)" >"$dir/log/db-install" 2>&1 || return 1
  background "$dir/log/db" mariadbd --no-defaults --datadir="$dir/db" --socket="$dir/run/db.sock" --port=$((port + 3)) \
    --bind-address=127.0.0.1 --user="$(id -un)" --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900
  until_true test -S "$dir/run/db.sock" || return 1
  (
    umask 077
    cat >"$dir/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((port + 4))
SlurmUser=$(id -un)
LogFile=$dir/log/slurmdbd.log
PidFile=$dir/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((port + 3))
StorageUser=root
StorageLoc=slurm
CONF
  )
  cat >>"$dir/slurm.conf" <<CONF
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((port + 4))
AccountingStoragePass=$dir/run/munge.sock
CONF
  background "$dir/log/slurmdbd.out" slurmdbd -D
  until_true sacctmgr -n show cluster || return 1
  sacctmgr -i add cluster pinfold >"$dir/log/cluster" 2>&1
}

# slurm_up DIR OVERSUBSCRIBE [accounting]: Slurm with one node of NODE_CORES (2) cores; OVERSUBSCRIBE: NO, or FORCE:n jobs a core.
slurm_up() {
  local dir=$1 port
  port=$(free_ports 5)
  mkdir -p "$dir"/{run,log,spool,state}
  (umask 077 && head -c 1024 /dev/urandom >"$dir/munge.key")
  slurm_conf "$dir" "$port" "$2" >"$dir/slurm.conf"
  printf '# what others have here\n' >"$dir/plugstack.conf"
  export SLURM_CONF=$dir/slurm.conf
  # Its parents may be open to all, as those below /tmp are.
  background "$dir/log/munged.out" munged -F --force --key-file="$dir/munge.key" --socket="$dir/run/munge.sock" \
    --pid-file="$dir/run/munged.pid" --log-file="$dir/log/munged.log" --seed-file="$dir/run/munged.seed"
  until_true munge -n -S "$dir/run/munge.sock" || return 1
  if [ "${3:-}" = accounting ]; then slurm_accounting_up "$dir" "$port" || return 1; fi
  slurmctld_up "$dir" -c -i || return 1
  slurmd_up "$dir"
}

# Slurm's controller, with these options; its number is in `slurmctld`.
slurmctld=0
slurmctld_up() {
  local dir=$1
  shift
  background "$dir/log/slurmctld.out" slurmctld -D "$@" -f "$SLURM_CONF"
  slurmctld=${started[0]}
  until_true scontrol ping
}

# Slurm's daemon on the host; its number is in `slurmd`.
slurmd=0
slurmd_up() {
  local starts
  starts=$(grep -c 'slurmd started' "$1/log/slurmd.log" 2>/dev/null)
  background "$1/log/slurmd.out" slurmd -D -N "${NODE_NAME:-here}" -f "$SLURM_CONF"
  slurmd=${started[0]}
  # The controller does not notice that one was away for a while.
  until_true sh -c "[ \"\$(grep -c 'slurmd started' '$1/log/slurmd.log')\" -gt ${starts:-0} ]" || return 1
  until_true sh -c 'sinfo -h -N -o %T | grep -Eqx "idle|mixed|allocated"'
}

# ---------------------------------------------------------------- Grid Engine
gridengine_bootstrap() {
  local dir=$1 lib=$2
  cat <<CONF
admin_user              $(id -un)
default_domain          none
ignore_fqdn             true
spooling_method         classic
spooling_lib            libspoolc
spooling_params         $dir/default/common;$dir/spool/qmaster
binary_path             $lib
qmaster_spool_dir       $dir/spool/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
CONF
}

# gridengine_queue NAME SLOTS: a queue on all hosts.
gridengine_queue() {
  qconf -sq | sed -e "s/^qname.*/qname $1/" -e 's/^hostlist.*/hostlist @allhosts/' -e "s/^slots.*/slots $2/" \
    -e 's#^shell .*#shell /bin/sh#' -e 's/^load_thresholds.*/load_thresholds NONE/' -e 's/^pe_list.*/pe_list NONE/' \
    >"$SGE_ROOT/queue"
  qconf -Aq "$SGE_ROOT/queue"
}

# gridengine_up DIR SLOTS: Grid Engine with one queue, `all.q`, of so many slots on this host.
gridengine_up() {
  local lib=/usr/lib/gridengine share=/usr/share/gridengine dir=$1 slots=$2 port host own
  port=$(free_ports 2)
  mkdir -p "$dir"/{bin,lib,utilbin,default/common,spool/qmaster/job_scripts,spool/execd,log}
  for own in bin lib utilbin; do ln -sfn $lib "$dir/$own/lx-amd64"; done
  ln -sfn $share/util "$dir/util"
  PATH=$lib:$PATH
  export SGE_ROOT=$dir SGE_CELL=default SGE_ARCH=lx-amd64 SGE_CLUSTER_NAME=pinfold SGE_ND=1
  export SGE_QMASTER_PORT=$port SGE_EXECD_PORT=$((port + 1))
  # Clients call themselves by the host's name, and 127.0.0.1 by another.
  echo "localhost $(hostname) $(awk '$1 == "127.0.0.1" { for (i = 2; i <= NF; i++) if ($i != "localhost") print $i }' /etc/hosts | sort -u | tr '\n' ' ')" \
    >"$dir/default/common/host_aliases"
  host=$(gethostname -aname)
  gridengine_bootstrap "$dir" $lib >"$dir/default/common/bootstrap"
  echo "$host" >"$dir/default/common/act_qmaster"
  sed -e "s#^execd_spool_dir.*#execd_spool_dir $dir/spool/execd#" -e 's/^min_uid.*/min_uid 0/' -e 's/^min_gid.*/min_gid 0/' \
    -e 's#^mailer.*#mailer /bin/true#' -e 's/^administrator_mail.*/administrator_mail none/' \
    -e 's/^load_report_time.*/load_report_time 00:00:02/' $share/default-configuration >"$dir/conf"
  {
    spoolinit classic libspoolc "$dir/default/common;$dir/spool/qmaster" init
    spooldefaults configuration "$dir/conf"
    spooldefaults complexes $share/util/resources/centry
    spooldefaults usersets $share/util/resources/usersets
    spooldefaults managers root "$(id -un)"
  } >"$dir/log/spool" 2>&1
  background "$dir/log/qmaster.out" sge_qmaster
  until_true qconf -sh || return 1
  {
    qconf -as "$host"
    printf 'group_name @allhosts\nhostlist NONE\n' >"$dir/group"
    qconf -Ahgrp "$dir/group"
    gridengine_queue all.q "$slots"
    qconf -ssconf | sed -e 's/^schedule_interval.*/schedule_interval 0:0:1/' -e 's/^flush_submit_sec.*/flush_submit_sec 1/' \
      -e 's/^flush_finish_sec.*/flush_finish_sec 1/' >"$dir/scheduler"
    qconf -Msconf "$dir/scheduler"
  } >"$dir/log/setup" 2>&1
  sge_execd_up "$dir"
  until_true sh -c 'qconf -sel | grep -q .' || return 1
  qconf -aattr hostgroup hostlist "$host" @allhosts >/dev/null 2>&1
  until_true sh -c "qstat -f -q all.q -u '*' | grep -q 'lx-amd64 *\$'"
}

# Grid Engine's daemon on the host; its number is in `sge_execd`.
sge_execd=0
sge_execd_up() {
  background "$1/log/execd.out" sge_execd
  sge_execd=${started[0]}
}

# gridengine_hooked FILE QUEUE: does what `pinfold wlm install gridengine` printed, for that queue, as it is printed.
gridengine_hooked() {
  sed -n "/^# a job asks/,/^\$/s/ QUEUE\$/ $2/p" "$1" | grep '^qconf' >"$SGE_ROOT/commands"
  sh -e "$SGE_ROOT/commands" >/dev/null
}
# gridengine_unhooked FILE: types the commands that `pinfold wlm uninstall gridengine` printed in its refusal.
gridengine_unhooked() {
  grep '^[q(]' "$1" >"$SGE_ROOT/commands" && sh -e "$SGE_ROOT/commands" >/dev/null
}
