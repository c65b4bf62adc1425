#!/usr/bin/env bash
# Real workload managers beside a private daemon: each is started on loopback in a directory of its own, pinfold's hooks are
# installed, jobs go through, are cancelled while they wait, run and are frozen, and everything is stopped by its number.
# Nothing below /etc is touched. As root it installs Debian's packages of what is missing; otherwise it says what that is.
# Usage: wlm.sh [slurm] [gridengine]; PINFOLD_BIN names the directory of pinfold and pinfoldd (target/debug).
set -uo pipefail
cd "$(dirname "$0")/.."
bin=$(realpath -m "${PINFOLD_BIN:-${CARGO_TARGET_DIR:-target}/debug}")
managers=("$@")
[ "${#managers[@]}" -gt 0 ] || managers=(slurm gridengine)
failures=0 passed=0 skipped=()
work=$(mktemp -d /var/tmp/pinfold-wlm-XXXXXX)
chmod 755 "$work"
started=() # numbers of what this script started, the last one first to end
PATH=/usr/sbin:/sbin:$PATH
unset "${!SLURM_@}" "${!SGE_@}" "${!PINFOLD_@}"
export PINFOLD_SOCKET=$work/pinfold.sock
pinfold=$bin/pinfold
user=$(id -un)

say() { echo "wlm: $*"; }

# holds WORDS COMMAND...: what must hold.
holds() {
  local what=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    failures=$((failures + 1))
    say "FAILED: $what"
  fi
}

# until_true COMMAND...: waits until it holds, for a minute at most.
until_true() {
  local deadline=$((SECONDS + ${PATIENCE:-60}))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || { say "still not: $*"; as_it_is; return 1; }
    sleep 0.05
  done
}

# What pinfold and the managers have, for whoever reads of a failure.
as_it_is() {
  "$pinfold" --no-autostart status --columns job,state,external,cpus,reason 2>&1 | sed 's/^/    /'
  [ -z "${SLURM_CONF:-}" ] || squeue 2>&1 | sed 's/^/    /'
  [ -z "${SGE_ROOT:-}" ] || qstat -u '*' 2>&1 | sed 's/^/    /'
}

# background LOG COMMAND...: in a session of its own; its number is in `started`.
background() {
  local log=$1
  shift
  setsid "$@" >"$log" 2>&1 </dev/null &
  started=("$!" "${started[@]}")
}

# end NUMBER: ends one that was started here.
end() {
  kill "$1" 2>/dev/null || return 0
  for _ in $(seq 100); do
    kill -0 "$1" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL "$1" 2>/dev/null
}

end_all() {
  local pid
  for pid in "${started[@]}"; do
    # What a manager's daemons leave behind of their jobs are children of theirs.
    end "$pid"
  done
  started=()
}

finish() {
  # Managers end their jobs; their daemons would leave them.
  local tries
  if [ -n "${SLURM_CONF:-}" ] && scancel -u "$user" 2>/dev/null; then
    for tries in $(seq 60); do
      [ -n "$(squeue -h 2>/dev/null)" ] || break
      [ "$tries" = 20 ] && scancel -s KILL -u "$user" 2>/dev/null
      sleep 0.5
    done
  fi
  if [ -n "${SGE_ROOT:-}" ] && qdel -u "$user" >/dev/null 2>&1; then
    for tries in $(seq 30); do
      [ -n "$(qstat -u '*' 2>/dev/null)" ] || break
      sleep 0.5
    done
  fi
  end_all
  [ "$failures" -gt 0 ] && [ -n "${KEEP:-}" ] && { say "kept $work"; return; }
  rm -rf "$work"
}
trap finish EXIT

# needs PROGRAM PACKAGE...: installs what is missing.
needs() {
  local program=$1
  shift
  command -v "$program" >/dev/null && return 0
  [ -x "/usr/lib/gridengine/$program" ] && return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing $*"
    printf '%s shared/gridengineconfig boolean false\n' gridengine-master gridengine-client gridengine-exec |
      debconf-set-selections 2>/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >"$work/apt.log" 2>&1 || {
      apt-get update -qq >>"$work/apt.log" 2>&1
      DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >>"$work/apt.log" 2>&1
    } || tail -n 5 "$work/apt.log"
  fi
  command -v "$program" >/dev/null || [ -x "/usr/lib/gridengine/$program" ]
}

daemon=0
daemon_up() {
  background "$work/pinfoldd.log" "$bin/pinfoldd" --socket "$PINFOLD_SOCKET" --state-dir "$work/state" \
    --set slots.factor=1 --set "host.cpus=0-1"
  daemon=${started[0]}
  until_true "$pinfold" --no-autostart status
}

# What pinfold tells of the job with that name: one key of its JSON.
of() { "$pinfold" --no-autostart status --columns "$2" "$1" 2>/dev/null | tail -n +2 | tr -d ' '; }
is() { [ "$(of "$1" state)" = "$2" ]; }
count() { [ "$("$pinfold" --no-autostart status --state "$1" --columns job | tail -n +2 | wc -l)" = "$2" ]; }
first() { "$pinfold" --no-autostart status --state "$1" --sort job --columns external | sed -n 2p | tr -d ' '; }
stopped() { [ "$(cut -d ' ' -f 3 "/proc/$1/stat" 2>/dev/null)" = T ]; }
pid_of() { of "$1" pids | cut -d , -f 1; }
tells() { grep -q -- "$2" <<<"$1"; }
same() { [ "$1" = "$2" ] || { say "  $1 is not $2"; return 1; }; }
# Other work on the machine makes a loop slower, but not by half.
about() { awk -v one="$1" -v other="$2" 'BEGIN { one += 0; other += 0; exit !(one > 0 && one < 2 * other && other < 2 * one) }'; }
gone() { [ ! -d "/proc/$1" ]; }

# frozen_and_back NAME: pinfold suspends and resumes it by the manager's name.
frozen_and_back() {
  local name=$1 pid
  pid=$(pid_of "$name")
  holds "$name is suspended by its name" "$pinfold" suspend "$name"
  holds "$name is frozen" until_true is "$name" frozen
  holds "its processes stand" until_true stopped "$pid"
  holds "$name is resumed" "$pinfold" resume "$name"
  holds "$name runs again" until_true is "$name" running
}

# ---------------------------------------------------------------- Slurm
slurm_up() {
  local dir=$work/slurm port=$((20000 + RANDOM % 20000))
  mkdir -p "$dir"/{run,log,spool,state}
  (umask 077 && head -c 1024 /dev/urandom >"$dir/munge.key")
  cat >"$dir/slurm.conf" <<CONF
ClusterName=pinfold
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=$user
SlurmdUser=$user
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
DefMemPerCPU=100
SchedulerParameters=batch_sched_delay=0,sched_interval=1
JobAcctGatherType=jobacct_gather/linux
JobCompType=jobcomp/filetxt
JobCompLoc=$dir/log/jobs
SlurmdParameters=config_overrides
KillWait=10
PlugStackConfig=$dir/plugstack.conf
NodeName=here NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((port + 2)) Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=2000
PartitionName=main Nodes=here Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:2
CONF
  printf '# a line without an end' >"$dir/plugstack.conf"
  export SLURM_CONF=$dir/slurm.conf
  background "$dir/log/munged.out" munged -F --force --key-file="$dir/munge.key" --socket="$dir/run/munge.sock" \
    --pid-file="$dir/run/munged.pid" --log-file="$dir/log/munged.log" --seed-file="$dir/run/munged.seed"
  until_true munge -n -S "$dir/run/munge.sock" || return 1
  background "$dir/log/slurmctld.out" slurmctld -D -c -i -f "$SLURM_CONF"
  until_true scontrol ping || return 1
  background "$dir/log/slurmd.out" slurmd -D -N here -f "$SLURM_CONF"
  until_true sh -c '[ "$(sinfo -h -N -o %T)" = idle ]'
}

queue() { squeue -h -t all -j "$1" -o %T 2>/dev/null; }
left() { case $(queue "$1") in RUNNING | PENDING | COMPLETING | SUSPENDED) return 1 ;; esac; }
batch() { sbatch --parsable -n1 -o "$work/out.%j" "$@"; }
# field JOB NAME: what Slurm's job completion log says.
field() { sed -n "s/^JobId=$1 .* $2=\([^ ]*\).*/\1/p" "$work/slurm/log/jobs"; }

slurm() {
  local before after job a b one two three four out
  slurm_up || { holds "Slurm starts" false; return; }
  cp "$work/slurm/plugstack.conf" "$work/before"
  before=$(srun -n1 sh -c 'cat /proc/self/cgroup; grep Cpus_allowed_list /proc/self/status')
  a=$(batch --wrap 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 3')
  holds "a job ends without pinfold" until_true left "$a"
  holds "hooks are installed" "$pinfold" wlm install slurm --to "$work/hooks" --apply >/dev/null
  holds "they are found" tells "$("$pinfold" wlm detect)" 'its jobs come to pinfold'
  out=$("$pinfold" wlm check slurm)
  holds "a check says that all holds: $out" test "$?" = 0
  after=$(srun -n1 sh -c 'cat /proc/self/cgroup; grep Cpus_allowed_list /proc/self/status')
  holds "a task stays in Slurm's groups and on its CPUs" same "$after" "$before"
  b=$(batch --wrap 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 3')
  holds "a job ends with pinfold" until_true left "$b"
  holds "Slurm tells the same end" same "$(field "$b" JobState)" "$(field "$a" JobState)"
  say "Slurm, a job of one loop: without $(field "$a" StartTime) to $(field "$a" EndTime), with $(field "$b" StartTime) to $(field "$b" EndTime)"

  say "Slurm: more jobs than cores"
  one=$(batch --wrap 'sleep 300') two=$(batch --wrap 'sleep 300')
  holds "two run" until_true count running 2
  three=$(batch --wrap 'sleep 300') four=$(batch --wrap "touch $work/ran; exit 0")
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
  holds "it ends at once" until_true gone "$out"
  holds "it is gone from Slurm" until_true left "$one"
  holds "one that runs is cancelled by Slurm" scancel "$two"
  holds "it is gone from pinfold" until_true is "slurm:$two" exited

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
  holds "hostile text is refused by srun" sh -c "! srun -n1 '--pinfold-mem=1;touch $work/owned' true 2>/dev/null"
  holds "hostile names do no harm" srun -n1 -J "--backfill \$(touch $work/owned)" true
  holds "nothing came of it" test ! -e "$work/owned"

  say "Slurm: without a daemon, and a daemon that is killed"
  one=$(batch --wrap 'sleep 300') two=$(batch --wrap 'sleep 300')
  holds "two run" until_true count running 2
  three=$(batch --wrap 'echo its turn came')
  holds "one waits" until_true count queued 1
  out=$(first running)
  holds "one is frozen" "$pinfold" suspend "$out"
  holds "it stands" until_true is "$out" frozen
  out=$(pid_of "$out")
  kill -KILL "$daemon"
  holds "what was frozen goes on when the daemon is dead" until_true sh -c "! grep -q '^State:.*T' /proc/$out/status"
  daemon_up
  holds "the next daemon knows both" until_true count running 2
  scancel "$one" "$two"
  holds "one that waited has its turn" until_true grep -q 'its turn came' "$work/out.$three"
  holds "and ends" until_true left "$three"
  end "$daemon"
  job=$(batch --wrap 'echo done')
  holds "without a daemon a job runs" until_true left "$job"
  holds "it did what it was to do" grep -q done "$work/out.$job"
  holds "that it is unmanaged is said" grep -q 'runs unmanaged: no daemon' "$work/out.$job"
  daemon_up
  holds "hooks are removed" "$pinfold" wlm uninstall slurm --to "$work/hooks"
  holds "the file is as it was, byte for byte" cmp "$work/before" "$work/slurm/plugstack.conf"
  holds "nothing is left of the hooks" test ! -e "$work/hooks"
}

# ---------------------------------------------------------------- Grid Engine
gridengine_up() {
  local lib=/usr/lib/gridengine share=/usr/share/gridengine dir=$work/sge port=$((20000 + RANDOM % 20000)) host own
  mkdir -p "$dir"/{bin,lib,utilbin,default/common,spool/qmaster/job_scripts,spool/execd,log}
  for own in bin lib utilbin; do ln -sfn $lib "$dir/$own/lx-amd64"; done
  ln -sfn $share/util "$dir/util"
  export SGE_ROOT=$dir SGE_CELL=default SGE_ARCH=lx-amd64 SGE_CLUSTER_NAME=pinfold SGE_ND=1
  export SGE_QMASTER_PORT=$port SGE_EXECD_PORT=$((port + 1))
  PATH=$lib:$PATH
  # Clients call themselves by the host's name, and 127.0.0.1 by another.
  echo "localhost $(hostname) $(awk '$1 == "127.0.0.1" { for (i = 2; i <= NF; i++) if ($i != "localhost") print $i }' /etc/hosts | sort -u | tr '\n' ' ')" \
    >"$dir/default/common/host_aliases"
  host=$(gethostname -aname)
  cat >"$dir/default/common/bootstrap" <<CONF
admin_user              $user
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
  echo "$host" >"$dir/default/common/act_qmaster"
  sed -e "s#^execd_spool_dir.*#execd_spool_dir $dir/spool/execd#" -e 's/^min_uid.*/min_uid 0/' -e 's/^min_gid.*/min_gid 0/' \
    -e 's#^mailer.*#mailer /bin/true#' -e 's/^administrator_mail.*/administrator_mail none/' \
    -e 's/^load_report_time.*/load_report_time 00:00:02/' $share/default-configuration >"$dir/conf"
  {
    spoolinit classic libspoolc "$dir/default/common;$dir/spool/qmaster" init
    spooldefaults configuration "$dir/conf"
    spooldefaults complexes $share/util/resources/centry
    spooldefaults usersets $share/util/resources/usersets
    spooldefaults managers root "$user"
  } >"$dir/log/spool" 2>&1
  background "$dir/log/qmaster.out" sge_qmaster
  until_true qconf -sh || return 1
  {
    qconf -as "$host"
    printf 'group_name @allhosts\nhostlist NONE\n' >"$dir/group"
    qconf -Ahgrp "$dir/group"
    qconf -sq | sed -e 's/^qname.*/qname all.q/' -e 's/^hostlist.*/hostlist @allhosts/' -e 's/^slots.*/slots 4/' \
      -e 's#^shell .*#shell /bin/sh#' -e 's/^load_thresholds.*/load_thresholds NONE/' -e 's/^pe_list.*/pe_list NONE/' >"$dir/queue"
    qconf -Aq "$dir/queue"
    qconf -ssconf | sed -e 's/^schedule_interval.*/schedule_interval 0:0:1/' -e 's/^flush_submit_sec.*/flush_submit_sec 1/' \
      -e 's/^flush_finish_sec.*/flush_finish_sec 1/' >"$dir/scheduler"
    qconf -Msconf "$dir/scheduler"
  } >"$dir/log/setup" 2>&1
  background "$dir/log/execd.out" sge_execd
  until_true sh -c 'qconf -sel | grep -q .' || return 1
  qconf -aattr hostgroup hostlist "$host" @allhosts >/dev/null 2>&1
  until_true sh -c "qstat -f -u '*' | grep -q 'lx-amd64 *\$'"
}

grid_left() { ! qstat -u '*' 2>/dev/null | awk '{ print $1 }' | grep -qx "$1"; }
grid() { qsub -terse -N job -o "$work/grid.out" -j y -b y "$@"; }
used() { qacct -j "$1" 2>/dev/null | awk -v key="$2" '$1 == key { print $2; exit }'; }
qconf_says() { qconf "$1" "$2" "$3" "$4" "$5" >/dev/null 2>&1; }

gridengine() {
  local a b one two three out loop='i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; exit 3'
  gridengine_up || { holds "Grid Engine starts" false; return; }
  a=$(grid "$loop")
  holds "a job ends without pinfold" until_true used "$a" exit_status
  holds "hooks are written" "$pinfold" wlm install gridengine --to "$work/hooks-ge" >"$work/lines"
  # Typed as they are printed.
  sed -n '/^# a job asks/,/^$/s/ QUEUE$/ all.q/p' "$work/lines" | grep '^qconf' >"$work/commands"
  holds "the printed commands are taken" sh -e "$work/commands" >/dev/null
  holds "they are found" tells "$("$pinfold" wlm detect)" 'Grid Engine  SGE .*its jobs come to pinfold'
  # The execution daemon hears of it with the next job.
  sleep 3
  out=$("$pinfold" wlm check gridengine 2>/dev/null)
  holds "a check says that all holds: $out" test "$?" = 0
  b=$(grid "$loop")
  holds "a job ends with pinfold" until_true grid_left "$b"
  until_true sh -c "qacct -j $a && qacct -j $b"
  holds "Grid Engine tells the same status" same "$(used "$b" exit_status)" "$(used "$a" exit_status)"
  holds "and about the same processor time" about "$(used "$b" cpu)" "$(used "$a" cpu)"
  say "Grid Engine, a job of one loop: without $(used "$a" cpu) s of CPU, with $(used "$b" cpu) s"

  say "Grid Engine: more jobs than cores"
  one=$(grid 'sleep 300') two=$(grid 'sleep 300')
  holds "two run" until_true count running 2
  three=$(grid 'sleep 300')
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
  holds "it ends" until_true gone "$out"
  holds "it is gone from Grid Engine" until_true grid_left "$one"
  holds "one that runs is deleted" qdel "$two"
  holds "it is gone from pinfold" until_true is "sge:$two" exited
  out=$(printf 'x\nquit\n' | "$work/hooks-ge/pinfold-load.sh")
  holds "the load sensor tells free slots" tells "$out" ':pinfold_slots:2'
  one=$(qsub -terse -N tasks -t 1-2 -o /dev/null -j y -b y 'sleep 300')
  one=${one%%.*}
  holds "each task of an array has a name" until_true is "sge:$one.2" running
  holds "the name of all is refused, as it means several" sh -c "! '$pinfold' suspend sge:$one 2>/dev/null"
  qdel "$one" >/dev/null
  holds "both end" until_true is "sge:$one.1" exited
  end "$daemon"
  rm -f "$work/grid.out"
  one=$(grid 'echo it is done')
  holds "without a daemon a job runs" until_true grid_left "$one"
  holds "it did what it was to do, and says that it is unmanaged" sh -c "grep -q '^it is done' '$work/grid.out' && grep -q 'runs unmanaged' '$work/grid.out'"
  daemon_up
  holds "hooks are removed" "$pinfold" wlm uninstall gridengine --to "$work/hooks-ge"
}

[ -x "$pinfold" ] && [ -x "$bin/pinfoldd" ] || { say "no programs in $bin: cargo build --workspace --bins"; exit 2; }
[ "$(nproc)" -ge 2 ] || { say "SKIPPED, as two processors are needed"; exit 0; }
daemon_up
for manager in "${managers[@]}"; do
  begun=$SECONDS
  case $manager in
  slurm)
    if needs slurmctld slurm-wlm slurm-wlm-basic-plugins libslurm-dev munge gcc libc6-dev && [ -e /usr/include/slurm/spank.h ]; then
      slurm
    else
      skipped+=("Slurm (apt: slurm-wlm libslurm-dev munge gcc)")
    fi
    ;;
  gridengine)
    if [ "$(id -u)" != 0 ]; then
      skipped+=("Grid Engine, which only root can run")
    elif needs sge_qmaster gridengine-master gridengine-exec gridengine-client; then
      gridengine
    else
      skipped+=("Grid Engine (apt: gridengine-master gridengine-exec gridengine-client)")
    fi
    ;;
  *)
    say "no such manager: $manager; slurm, gridengine"
    exit 2
    ;;
  esac
  say "$manager took $((SECONDS - begun)) s"
done
for one in ${skipped[@]+"${skipped[@]}"}; do say "SKIPPED: $one"; done
say "$passed held, $failures failed"
[ "$failures" = 0 ]
