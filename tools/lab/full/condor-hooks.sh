# Jobs that the lab's HTCondor dispatches and pinfold manages in place, by the job wrapper; read by condor.sh while its daemons
# are up. Needs condor_begin and condor_end of that.
# shellcheck shell=sh
echo "== pinfold manages HTCondor's jobs"

# id_of_last: CLUSTER.PROCESS of the job that was submitted last.
id_of_last() { condor_q -allusers -af ClusterId ProcId | tail -n 1 | tr ' ' .; }
in_condor() { condor_q -allusers "$1" -af JobStatus; }
of_condor() { pinfold status --columns state "condor:$1" | sed -n 2p | tr -d ' '; }
condor_pid() { pinfold status --columns pids "condor:$1" | sed -n 2p | tr -d ' ' | cut -d , -f 1; }
condor_process() { cut -d ' ' -f 3 "/proc/$1/stat" 2>/dev/null || echo gone; }
offered() { condor_status -af "$1" | head -n 1; }

condor_hooked() {
  echo "HTCondor is $(condor_version | head -n 1)"
  # One slot, so that one job fills the host.
  pinfold config set slots.factor=0.5
  pinfold admin wlm install htcondor >lines 2>install.log
  check "the hooks are written" 0 $?
  # The printed lines, as they are.
  sed -n '/(optional)/q; /^[A-Z_]* = /p' lines >>"$CONDOR_CONFIG"
  check "with lines for HTCondor" 6 "$(sed -n '/(optional)/q; /^[A-Z_]* = /p' lines | wc -l)"
  systemctl restart lab-condor 2>/dev/null || {
    systemctl stop lab-condor
    systemd-run --quiet --unit lab-condor -p Delegate=yes -p KillMode=mixed -E CONDOR_CONFIG="$CONDOR_CONFIG" condor_master -f
  }
  until_is "its machine advertises pinfold's slots" 1 offered PinfoldSlots
  until_is "and takes jobs" true offered PinfoldOpen
}

condor_managed() {
  check "the exit status of a job" 3 "$(condor_job 'exit 3')"
  condor_begin 'sleep 100000'
  one=$(id_of_last)
  until_is "a job runs" running of_condor "$one"
  check "HTCondor has it as running" 2 "$(in_condor "$one")"
  pid=$(condor_pid "$one")
  group=$(cut -d : -f 3 "/proc/$pid/cgroup")
  echo "the group of HTCondor's job: $group"
  check "it is in a group of HTCondor's" 1 "$(echo "$group" | grep -c /htcondor/condor_)"
  until_is "the host is full, and HTCondor is told" false offered PinfoldOpen
  mkdir -p /home/worker/other
  cd /home/worker/other || return
  condor_begin 'exit 0'
  two=$(id_of_last)
  sleep 15
  check "it sends no other job meanwhile" 1 "$(in_condor "$two")"
  pinfold suspend "condor:$one"
  until_is "the job is suspended by its name" frozen of_condor "$one"
  until_is "its process is stopped" T condor_process "$pid"
  check "the group is the same" "$group" "$(cut -d : -f 3 "/proc/$pid/cgroup")"
  condor_end >status
  check "with its slot free, the other job is sent and ends" 0 "$(cat status)"
  check "it was pinfold's" exited "$(of_condor "$two")"
  runuser -u worker -- env CONDOR_CONFIG="$CONDOR_CONFIG" condor_rm "$one" >/dev/null
  until_is "a suspended job that is removed is over here, too" exited of_condor "$one"
  until_is "its process is gone" gone condor_process "$pid"
  pinfold admin drain
  until_is "a drained host takes nothing" false offered PinfoldOpen
  pinfold admin undrain
  until_is "and takes jobs afterwards" true offered PinfoldOpen
  cd /home/worker/condor || return
}

# What HTCondor accounts for a job beside what the job counted itself, with the hooks and without. What a start takes, a hook's
# own work too, takes twenty times as much here as elsewhere: it is that of a job that does nothing.
condor_counts() {
  cat >work.sh <<'J'
begin=$(date +%s.%N)
# In this very shell: another one has times of its own.
used() {
  times >used
  cpu=$(awk 'NR < 3 { for (j = 1; j <= 2; j++) { split($j, part, "m"); cpu += 60 * part[1] + part[2] } } END { print cpu }' used)
}
used
while [ "${cpu%.*}" -lt 60 ]; do
  i=0
  while [ $i -lt 20000 ]; do i=$((i + 1)); done
  used
done
echo "$cpu $(echo "$begin $(date +%s.%N)" | awk '{ print $2 - $1 }')"
J
}
# condor_told COMMAND: runs that as a job; `told` is the CPU and the time that HTCondor accounts for it.
condor_told() {
  check "the exit status of a job $kind pinfold" 0 "$(condor_job "$1")"
  until_is "it is in HTCondor's history" 0 sh -c 'condor_q -allusers -af ClusterId | wc -l'
  told=$(condor_history -limit 1 -af 'RemoteUserCpu + RemoteSysCpu' RemoteWallClockTime)
  check "pinfold had it, if it is to" "$([ $kind = with ] && echo exited)" "$(of_condor "$(condor_history -limit 1 -af ClusterId).0" 2>/dev/null)"
}
condor_accounts() {
  condor_counts
  # The starter reads which wrapper there is anew for each job.
  cp "$CONDOR_CONFIG" hooked.config
  for kind in with without; do
    [ $kind = with ] || sed '/^USER_JOB_WRAPPER/d' hooked.config >"$CONDOR_CONFIG"
    condor_told 'exit 0'
    empty=$told
    condor_told '. ./work.sh'
    figures="$(cat out) $told $empty"
    echo "$kind pinfold: CPU and time as the job counted them, as HTCondor tells them, and of one that does nothing: $figures"
    # It tells whole seconds.
    check "$kind pinfold HTCondor tells the job's CPU, within 2 % and a second" 1 \
      "$(echo "$figures" | awk '{ d = $3 - $5 - $1; if (d < 0) d = -d; if (NF == 6 && $1 > 0 && d <= 0.02 * $1 + 1) print 1 }')"
  done
  cp hooked.config "$CONDOR_CONFIG"
}

condor_hooked
condor_managed
condor_accounts
pinfold config set slots.factor=1.5
pinfold admin wlm uninstall htcondor >/dev/null 2>&1
check "the hooks are removed" 1 "$([ -e /usr/lib/pinfold/wlm/htcondor ] || echo 1)"
