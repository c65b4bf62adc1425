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

# condor_job COMMAND...: waits for it; what it says is in the file `out`, and its exit status is said.
condor_job() {
  rm -f out err log
  printf '%s\n' '#!/bin/sh' "$*" >job.sh
  chmod 755 job.sh
  cat >job.submit <<S
universe = vanilla
executable = /home/worker/condor/job.sh
output = out
error = err
log = log
request_cpus = 2
request_memory = 96
request_disk = 1024
should_transfer_files = NO
environment = "PINFOLD_SOCKET=$socket HOME=/home/worker PATH=/usr/bin:/bin"
queue
S
  chown -R worker: .
  runuser -u worker -- env CONDOR_CONFIG="$CONDOR_CONFIG" condor_submit -terse job.submit >/dev/null
  runuser -u worker -- env CONDOR_CONFIG="$CONDOR_CONFIG" condor_wait -wait 300 log >/dev/null
  sed -n 's/.*Normal termination (return value \([0-9]*\)).*/\1/p' log
}

condor_up
check "its master starts" 0 $?
until_is "its machine is there" 1 sh -c 'condor_status -af Name | grep -c .'
mkdir -p /home/worker/condor
cd /home/worker/condor || return
if [ "$found" = 1 ]; then
  check "the exit status of a job that it hands over" 3 "$(condor_job "pinfold run sh -c 'exit 3'")"
  check "and of one that looks around" 0 "$(condor_job "$allowed; pinfold run sh -c '$allowed; cut -d / -f 1-4 /proc/self/cgroup'")"
  both=$(tr '\n' ' ' <out)
  echo "HTCondor's PUs, the job's, and its group: $both"
  [ -s err ] && cat err
  check "it stays on the PUs that HTCondor gave" 0 "$(outside "$(word 2 "$both")" "$(word 1 "$both")")"
  check "HTCondor gave fewer than there are" 1 "$([ "$(pus "$(word 1 "$both")" | wc -l)" -lt "$(nproc)" ] && echo 1)"
  check "in a group of the service's" "0::/system.slice/pinfoldd.service/pinfold" "$(word 3 "$both")"
else
  tail -n 20 "$kept"/condor/log/*
fi
cd "$kept" || return
systemctl stop lab-condor
until_is "nothing of it is left" 0 running
