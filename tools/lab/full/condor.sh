# HTCondor on the lab's full machine, and a job of its that hands its own to pinfold; read by the suite.
# shellcheck shell=sh
echo "== HTCondor beside it"

# All of its daemons on the loopback, one slot that is divided as jobs ask, each job bound to its PUs.
condor_up() {
  own=$kept/condor
  mkdir -p "$own/spool" "$own/execute" "$own/log" "$own/lock" "$own/run"
  chmod 1777 "$own/execute"
  chown -R condor: "$own/spool" "$own/log" "$own/lock" "$own/run"
  cat >"$own/config" <<C
RELEASE_DIR = /usr
LOCAL_DIR = $own
LOCAL_CONFIG_DIR =
LOCAL_CONFIG_FILE =
BIN = /usr/bin
SBIN = /usr/sbin
LIB = /usr/lib/x86_64-linux-gnu
LIBEXEC = /usr/libexec/condor
SPOOL = $own/spool
EXECUTE = $own/execute
LOG = $own/log
LOCK = $own/lock
RUN = $own/run
DAEMON_LIST = MASTER COLLECTOR NEGOTIATOR SCHEDD STARTD
CONDOR_HOST = 127.0.0.1
COLLECTOR_HOST = 127.0.0.1:19618
USE_SHARED_PORT = true
SHARED_PORT_PORT = 19618
NETWORK_INTERFACE = 127.0.0.1
BIND_ALL_INTERFACES = false
ENABLE_IPV6 = false
FULL_HOSTNAME = localhost
UID_DOMAIN = lab
FILESYSTEM_DOMAIN = lab
TRUST_UID_DOMAIN = true
SEC_DEFAULT_AUTHENTICATION = OPTIONAL
SEC_DEFAULT_AUTHENTICATION_METHODS = FS, CLAIMTOBE
SEC_CLIENT_AUTHENTICATION_METHODS = FS, CLAIMTOBE
SEC_DEFAULT_ENCRYPTION = OPTIONAL
SEC_DEFAULT_INTEGRITY = OPTIONAL
ALLOW_READ = *
ALLOW_WRITE = *
ALLOW_DAEMON = *
ALLOW_ADMINISTRATOR = *
ALLOW_NEGOTIATOR = *
ALLOW_ADVERTISE_STARTD = *
ALLOW_ADVERTISE_SCHEDD = *
ALLOW_ADVERTISE_MASTER = *
START = TRUE
SUSPEND = FALSE
PREEMPT = FALSE
KILL = FALSE
NUM_CPUS = $(nproc)
MEMORY = 512
NUM_SLOTS = 1
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1 = 100%
SLOT_TYPE_1_PARTITIONABLE = true
ASSIGN_CPU_AFFINITY = true
NEGOTIATOR_INTERVAL = 5
NEGOTIATOR_CYCLE_DELAY = 1
SCHEDD_INTERVAL = 5
UPDATE_INTERVAL = 5
C
  export CONDOR_CONFIG="$own/config"
  systemd-run --quiet --unit lab-condor -p Delegate=yes -p KillMode=mixed -E CONDOR_CONFIG="$own/config" condor_master -f
}

# condor_begin COMMAND...: hands it to HTCondor; what it says will be in the file `out`.
condor_begin() {
  rm -f out err log
  printf '%s\n' '#!/bin/sh' "$*" >job.sh
  chmod 755 job.sh
  cat >job.submit <<S
universe = vanilla
executable = $PWD/job.sh
output = out
error = err
log = log
request_cpus = 2
request_memory = 96
request_disk = 1024
job_max_vacate_time = 5
should_transfer_files = NO
environment = "PINFOLD_SOCKET=$socket HOME=/home/worker PATH=/usr/bin:/bin"
queue
S
  chown -R worker: .
  runuser -u worker -- env CONDOR_CONFIG="$CONDOR_CONFIG" condor_submit -terse job.submit >/dev/null
}

# Waits for it, and says its exit status.
condor_end() {
  runuser -u worker -- env CONDOR_CONFIG="$CONDOR_CONFIG" condor_wait -wait 300 log >/dev/null
  sed -n 's/.*Normal termination (return value \([0-9]*\)).*/\1/p' log
}

condor_job() {
  condor_begin "$@"
  condor_end
}

# One that goes on until it is ended, and until it runs.
condor_step() {
  before=$(running)
  condor_begin "$@"
  until_is "a job runs in it" $((before + 1)) running
}

condor_removed() {
  runuser -u worker -- env CONDOR_CONFIG="$CONDOR_CONFIG" condor_rm -all >/dev/null
  until_is "$1" 0 running
  until_is "HTCondor knows of no more" 0 sh -c 'condor_q -allusers -af ClusterId | wc -l'
  check "as of one that was removed" 1 "$(grep -c 'Job was aborted' log)"
}

condor_up
check "its master starts" 0 $?
until_is "its machine is there" 1 sh -c 'condor_status -af Name | grep -c .'
mkdir -p /home/worker/condor
cd /home/worker/condor || return
if [ "$found" != 1 ]; then
  tail -n 20 "$kept"/condor/log/*
  cd "$kept" || return
  systemctl stop lab-condor
  return
fi
check "the exit status of a job that it hands over" 3 "$(condor_job "pinfold run sh -c 'exit 3'")"
# shellcheck disable=SC2016
bound='cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/memory.max'
# What HTCondor gives is in multiples of what its administrator says.
# shellcheck disable=SC2016
given='echo $(($(sed -n "s/^Memory = //p" "$_CONDOR_MACHINE_AD") << 20))'
cat >inside.sh <<J
$allowed; cut -d / -f 1-4 /proc/self/cgroup; $bound
J
check "and of one that looks around" 0 "$(condor_job "$allowed; $given; pinfold run sh inside.sh; pinfold run --mem-limit 32MiB sh inside.sh")"
both=$(tr '\n' ' ' <out)
echo "HTCondor's PUs and memory, the job's PUs, its group and its bound: $both"
[ -s err ] && cat err
check "it stays on the PUs that HTCondor gave" 0 "$(outside "$(word 3 "$both")" "$(word 1 "$both")")"
check "HTCondor gave fewer than there are" 1 "$([ "$(pus "$(word 1 "$both")" | wc -l)" -lt "$(nproc)" ] && echo 1)"
check "in systemd's group for jobs" "0::$slice/pinfold-jobs.service/pinfold" "$(word 4 "$both")"
check "and within HTCondor's memory" "$(word 2 "$both")" "$(word 5 "$both")"
check "HTCondor gave less than there is" 1 "$([ "$(word 2 "$both")" -lt $((512 << 20)) ] && echo 1)"
check "with a bound of its own that is smaller" 33554432 "$(word 8 "$both")"

condor_step "exec pinfold run sh -c 'trap \": >heeded; exit 4\" TERM; until [ -e /nowhere ]; do sleep 0.2; done'"
condor_removed "removed by HTCondor, it is over here too"
check "and it was told" 1 "$(find . -name heeded | wc -l)"
# HTCondor kills who does not heed that, after a while.
condor_step "exec pinfold run sh -c 'trap \"\" TERM; until [ -e /nowhere ]; do sleep 0.2; done'"
condor_removed "as is one that does not heed it"

# The daemon dies meanwhile: HTCondor hears how the job ended all the same.
condor_step "pinfold run sh -c 'until [ -e $kept/condor-go ]; do sleep 0.2; done; exit 9'"
systemctl kill --signal=KILL --kill-whom=main pinfoldd
touch "$kept/condor-go"
check "the exit status when the daemon dies meanwhile" 9 "$(condor_end)"
until_is "the daemon is back" active systemctl is-active pinfoldd
until_is "and nothing is left" 0 running
. /lab/condor-hooks.sh
cd "$kept" || return
systemctl stop lab-condor
until_is "nothing of it is left" 0 running
