# Slurm on the lab's full machine, and jobs of its that hand theirs to pinfold; read by the suite.
# shellcheck shell=sh
echo "== Slurm beside it"

# One node with the processors and a part of the memory that are there, each job with cores and memory of its own.
slurm_up() {
  mkdir -p /etc/slurm /var/spool/slurmctld /var/spool/slurmd /var/log/slurm
  chown slurm: /var/spool/slurmctld /var/log/slurm
  [ -s /etc/munge/munge.key ] || head -c 1024 /dev/urandom >/etc/munge/munge.key
  chown munge: /etc/munge/munge.key
  chmod 400 /etc/munge/munge.key
  sockets=$(cat /sys/devices/system/cpu/cpu*/topology/physical_package_id | sort -u | wc -l)
  all_cores=$(cat /sys/devices/system/cpu/cpu*/topology/thread_siblings_list | sort -u | wc -l)
  cat >/etc/slurm/slurm.conf <<C
ClusterName=lab
SlurmctldHost=lab
SlurmUser=slurm
AuthType=auth/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldTimeout=600
SlurmdTimeout=600
MessageTimeout=60
InactiveLimit=0
KillWait=5
SchedulerType=sched/builtin
JobAcctGatherType=jobacct_gather/none
SlurmctldDebug=error
SlurmdDebug=error
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
NodeName=lab NodeAddr=127.0.0.1 Sockets=$sockets CoresPerSocket=$((all_cores / sockets)) ThreadsPerCore=$(($(nproc) / all_cores)) RealMemory=512 State=UNKNOWN
PartitionName=all Nodes=lab Default=YES DefMemPerNode=128 MaxTime=INFINITE State=UP
C
  printf 'CgroupPlugin=cgroup/v2\nConstrainCores=yes\nConstrainRAMSpace=yes\n' >/etc/slurm/cgroup.conf
  # It looks for an address that is not the loopback's own.
  ip address add 192.0.2.1/32 dev lo
  systemctl start munge slurmctld slurmd
}

slurm_down() {
  systemctl stop slurmd slurmctld munge
  ip address del 192.0.2.1/32 dev lo
}

# A step that goes on until it is ended, in the background, handed over with the options and command $@; and until it runs.
slurm_step() {
  before=$(running)
  srun -n 1 --mem 64 pinfold run "$@" &
  step=$!
  until_is "a job runs in it" $((before + 1)) running
}

slurm_up
check "its services start" 0 $?
until_is "its node is there" idle sinfo --noheader --format %T
if [ "$found" != idle ]; then
  tail -n 20 /var/log/slurm/*.log
  slurm_down
  return
fi
export PINFOLD_SOCKET=$socket
srun -n 1 pinfold run sh -c 'exit 3'
check "the exit status of a job that it hands over" 3 $?
check "a user's job" worker "$(cd /home/worker && as_worker srun -n 1 pinfold run id -un)"

# shellcheck disable=SC2016
bound='cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/memory.max'
both=$(srun -n 1 -c 2 --mem 96 sh -c "$allowed; pinfold run sh -c '$allowed; cut -d / -f 1-4 /proc/self/cgroup; $bound'" | tr '\n' ' ')
echo "Slurm's PUs, the job's, its group and its bound: $both"
check "it stays on the PUs that Slurm gave" 0 "$(outside "$(word 2 "$both")" "$(word 1 "$both")")"
check "Slurm gave fewer than there are" 1 "$([ "$(pus "$(word 1 "$both")" | wc -l)" -lt "$(nproc)" ] && echo 1)"
check "in systemd's group for jobs" "0::$slice/pinfold-jobs.service/pinfold" "$(word 3 "$both")"
check "and within Slurm's memory" 100663296 "$(word 4 "$both")"
check "with a bound of its own that is smaller" 33554432 "$(srun -n 1 --mem 96 pinfold run --mem-limit 32MiB sh -c "$bound")"
srun -n 1 -c 2 pinfold run --cores 2 true
check "more cores than Slurm gave are refused" 5 $?
handed=$(srun -n 1 -c 2 sh -c "$allowed; pinfold run pinfold run sh -c '$allowed'" | tr '\n' ' ')
check "a part of a job stays there, too" 0 "$(outside "$(word 2 "$handed")" "$(word 1 "$handed")")"

# Without the host's daemon, one of the user's own within the allocation.
private=$(cd /home/worker && runuser -u worker -- env -u PINFOLD_SOCKET HOME=/home/worker srun -n 1 -c 2 sh -c "$allowed; pinfold run sh -c '$allowed'" | tr '\n' ' ')
echo "with a daemon of the user's own: $private"
check "with a daemon of the user's own it stays there" 0 "$(outside "$(word 2 "$private")" "$(word 1 "$private")")"

slurm_step sleep 100000
scancel --name pinfold
wait $step
until_is "cancelled by Slurm, it is over here too" 0 running
# Slurm kills who does not heed that, after a while: the step is what it knows.
slurm_step sh -c 'trap "" TERM; until [ -e /nowhere ]; do sleep 0.2; done'
scancel --name pinfold
wait $step
until_is "as is one that does not heed it" 0 running

# The daemon dies meanwhile: Slurm hears how the job ended all the same.
slurm_step sh -c "until [ -e $kept/slurm ]; do sleep 0.2; done; exit 9"
systemctl kill --signal=KILL --kill-whom=main pinfoldd
touch $kept/slurm
wait $step
check "the exit status when the daemon dies meanwhile" 9 $?
until_is "the daemon is back" active systemctl is-active pinfoldd
until_is "and nothing is left" 0 running
unset PINFOLD_SOCKET
. /lab/slurm-hooks.sh
slurm_down
