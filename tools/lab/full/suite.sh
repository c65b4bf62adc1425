#!/bin/sh
# What must hold on a Debian system with systemd: the package and its service, jobs of several users, what systemd does to
# the service's groups, restarts of the daemon and of the host, and that nothing is left.
# Runs inside the lab's full machine, as a service, once with each start of the host. The machine's clock is real while its
# processors are some twenty times slower: nothing here is a bound on time but those of patience.
set -u
. /lab/checks.sh
kept=/var/lib/lab
mkdir -p $kept
cd $kept || exit 1
[ -e failed ] && failed=1
# systemd's group for the jobs lies beside the daemon's.
slice=/system.slice
service=/sys/fs/cgroup$slice/pinfold-jobs.service
socket=/run/pinfold/pinfold.sock

of_job() { cat $service/pinfold/*/job-"$1"/"$2"; }
unit() { systemctl show -P "$1" pinfoldd.service; }
as_worker() { runuser -u worker -- env HOME=/home/worker PINFOLD_SOCKET=$socket "$@"; }
# What its groups say of a job, and what its service hands down.
settings() { for file in cpuset.cpus cpu.weight cpu.idle memory.max; do of_job "$1" $file; done | tr '\n' ' '; }
handed_down() { cat $service/cgroup.subtree_control $service/pinfold/cgroup.subtree_control | tr '\n' ' '; }
# A job that goes on until the file $1 is there, with exit status 9.
until_made() { name=$1 && shift && pinfold submit "$@" -- sh -c "until [ -e $kept/$name ]; do sleep 0.2; done; exit 9"; }
# package WHAT ARGUMENT...: dpkg, and what it said if it fails
package() {
  what=$1
  shift
  dpkg "$@" >dpkg.log 2>&1
  status=$?
  [ $status = 0 ] || cat dpkg.log
  check "$what" 0 $status
}
# waited JOB STATUS
waited() {
  pinfold wait "$1"
  check "its exit status" "$2" $?
}

install_it() {
  echo "== the package is installed"
  package "dpkg installs it" --install /lab/pinfold.deb
  until_is "its service is active" active systemctl is-active pinfoldd
  check "and will be at the next start" enabled "$(systemctl is-enabled pinfoldd)"
  check "systemd waits for its word" notify "$(unit Type)"
  check "and a minute for a sign of life" 1min "$(unit WatchdogUSec)"
  until_is "of which it gives some" no sh -c '[ "$(systemctl show -P WatchdogTimestampMonotonic pinfoldd)" = 0 ] && echo yes || echo no'
  check "the daemon is in a group of its own" "0::$slice/pinfoldd.service" "$(sed 's|/pinfold-daemon$||' /proc/"$(unit MainPID)"/cgroup)"
  for controller in cpu cpuset memory pids; do
    check "it hands down $controller" 1 "$(grep -cw $controller $service/cgroup.subtree_control)"
  done
  check "beside a process that keeps systemd's group for jobs" "0::$slice/pinfold-jobs.service/pinfold-daemon" "$(cat /proc/"$(systemctl show -P MainPID pinfold-jobs.service)"/cgroup)"
  check "mode" v2 "$(pinfold --no-autostart status --json | tr ',{}' '\n\n\n' | sed -n 's/^"mode": *"\(.*\)"$/\1/p')"
  check "systemd has nothing to say against its unit" "" "$(systemd-analyze verify --man=no pinfoldd.service pinfold-jobs.service 2>&1 | grep pinfold)"
  pinfold doctor
}

jobs() {
  echo "== jobs of root and of a user"
  pinfold run sh -c 'exit 7'
  check "an exit status" 7 $?
  check "a user's job" worker "$(as_worker pinfold run id -un)"
  as_worker pinfold run sh -c 'exit 3'
  check "and its exit status" 3 $?
  # shellcheck disable=SC2016
  check "a limit is the kernel's" 67108864 "$(as_worker pinfold run --mem-limit 64MiB sh -c 'cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/memory.max')"
  check "a job is in systemd's group for jobs" "0::$slice/pinfold-jobs.service/pinfold" "$(as_worker pinfold run cut -d / -f 1-4 /proc/self/cgroup)"
  # shellcheck disable=SC2016
  check "a directory in memory is seen by a user's job" tmpfs "$(as_worker pinfold run --tmp 8MiB sh -c 'stat -f -c %T "$TMPDIR"')"
  check "a /tmp of its own is empty" 0 "$(as_worker pinfold run --private-tmp sh -c 'ls -A /tmp | grep -cv "^pinfold-"')"
  job=$(until_made of-root)
  until_is "a job of root's runs" running said "$job" state
  as_worker pinfold cancel "$job" >/dev/null 2>&1
  check "another user cannot end it" 3 $?
  touch of-root
  waited "$job" 9
}

reload() {
  echo "== systemd reads its units again, and sets values of its own"
  job=$(until_made reloaded --mem-limit 96MiB)
  until_is "a job runs" running said "$job" state
  before=$(settings "$job") down=$(handed_down)
  echo "its settings: $before; handed down: $down"
  systemctl daemon-reload
  check "daemon-reload leaves its settings" "$before" "$(settings "$job")"
  check "and what is handed down" "$down" "$(handed_down)"
  systemctl set-property --runtime pinfold-jobs.service CPUWeight=50 MemoryMax=700M
  check "systemd sets the weight of all jobs together" 50 "$(cat $service/cpu.weight)"
  check "and bound" 734003200 "$(cat $service/memory.max)"
  check "and leaves the job's settings" "$before" "$(settings "$job")"
  check "and what is handed down still" "$down" "$(handed_down)"
  systemctl set-property --runtime pinfold-jobs.service CPUWeight= MemoryMax=infinity
  systemctl daemon-reexec
  check "systemd starts itself again, and leaves them" "$before" "$(settings "$job")"
  check "the service is active" active "$(systemctl is-active pinfoldd)"
  # The daemon sets again what another program changes.
  echo 1 >"$(echo $service/pinfold/*/job-"$job"/cpu.idle)"
  until_is "what somebody changes is set again" "$before" settings "$job"
  check "and told" 1 "$(pinfold audit | grep -c 'drift' | awk '{ print ($1 > 0) }')"
  touch reloaded
  waited "$job" 9
}

# The daemon is replaced in the way of $2...; $1 says how.
replaced() {
  how=$1
  shift
  old=$(unit MainPID)
  "$@"
  until_is "$how, it is another process" no sh -c "pid=\$(systemctl show -P MainPID pinfoldd); [ \"\$pid\" = $old ] || [ \"\$pid\" = 0 ] && echo yes || echo no"
  until_is "which serves" active systemctl is-active pinfoldd
  [ "$found" = active ] || systemctl status pinfoldd --no-pager --full --lines 30
}

crash() {
  echo "== the daemon is killed, hangs, is started again, while a job runs"
  job=$(until_made crashed)
  until_is "a job runs" running said "$job" state
  before=$(settings "$job")
  pinfold suspend "$job"
  until_is "it is frozen" "frozen 1" sh -c "grep frozen $service/pinfold/*/job-$job/cgroup.events"
  replaced "killed" systemctl kill --signal=KILL --kill-whom=main pinfoldd
  check "systemd has started it again" 1 "$(unit NRestarts)"
  until_is "the job is known, and suspended as its user said" frozen said "$job" state
  pinfold resume "$job"
  until_is "it goes on when it is resumed" "frozen 0" sh -c "grep frozen $service/pinfold/*/job-$job/cgroup.events"
  until_is "and runs" running said "$job" state
  until_is "with the settings that it had" "$before" settings "$job"
  replaced "restarted" systemctl restart pinfoldd
  until_is "the job is known" running said "$job" state

  mkdir -p /run/systemd/system/pinfoldd.service.d
  printf '[Service]\nWatchdogSec=10\nTimeoutAbortSec=2\n' >/run/systemd/system/pinfoldd.service.d/lab.conf
  systemctl daemon-reload
  replaced "restarted with less patience" systemctl restart pinfoldd
  pinfold suspend "$job"
  until_is "the job is frozen" "frozen 1" sh -c "grep frozen $service/pinfold/*/job-$job/cgroup.events"
  replaced "without a sign of life" systemctl kill --signal=STOP --kill-whom=main pinfoldd
  until_is "the job is known, and suspended as its user said" frozen said "$job" state
  pinfold resume "$job"
  until_is "it goes on when it is resumed" "frozen 0" sh -c "grep frozen $service/pinfold/*/job-$job/cgroup.events"
  until_is "and runs" running said "$job" state
  rm -r /run/systemd/system/pinfoldd.service.d
  systemctl daemon-reload
  replaced "restarted as it was" systemctl restart pinfoldd
  touch crashed
  waited "$job" 9
}

upgrade() {
  echo "== a newer package is installed while jobs run"
  echo '# by hand' >>/etc/pinfold/pinfold.toml
  job=$(until_made upgraded)
  until_is "a job runs" running said "$job" state
  theirs=$(cd /home/worker && as_worker pinfold submit -- sh -c "until [ -e $kept/upgraded ]; do sleep 0.2; done; exit 4")
  until_is "a user's runs" running said "$theirs" state
  main=$(head -n 1 $service/pinfold/*/job-"$job"/cgroup.procs)
  replaced "upgraded" package "dpkg installs it" --install /lab/newer.deb
  check "it is the newer one" "$(dpkg-deb --field /lab/newer.deb Version)" "$(dpkg-query --show --showformat '${Version}' pinfold)"
  check "the configuration is as it was made by hand" '# by hand' "$(tail -n 1 /etc/pinfold/pinfold.toml)"
  until_is "the job is known" running said "$job" state
  check "it is the same process" "$main" "$(head -n 1 $service/pinfold/*/job-"$job"/cgroup.procs)"
  touch upgraded
  waited "$job" 9
  waited "$theirs" 4
}

# Reads the bounds of two jobs on memory again and again, without a process for each look.
looks() {
  while [ -e looked ]; do
    for group in "$group_of_first" "$group_of_second"; do
      read -r bound <"$group"/memory.max || bound=gone
      echo "$bound"
    done
    sleep 0.5
  done 2>&1 | sort -u >looks.txt
}
groups() { stat -c %i "$group_of_first" "$group_of_second" | tr '\n' ' '; }
# through HOW COMMAND...: the daemon is replaced, while jobs run, are frozen and wait
through() {
  touch looked
  looks &
  replaced "$@"
  back=$(($(unit ActiveEnterTimestampMonotonic) - $(unit ActiveExitTimestampMonotonic)))
  echo "back after $((back / 1000)) ms of this machine"
  until_is "the first runs" running said "$first" state
  until_is "the second is known, and suspended as its user said" frozen said "$second" state
  check "the third waits" queued "$(said "$third" state)"
  rm looked
  wait
  check "their bounds were the same all the time" "100663296 67108864 " "$(tr '\n' ' ' <looks.txt)"
  check "they have the groups that they had" "$had" "$(groups)"
}
stop_and_start() { systemctl stop pinfoldd && systemctl start pinfoldd; }
# three_jobs NAME: one that runs, one that is frozen, one that waits, all until NAME is made
three_jobs() {
  first=$(until_made "$1" --mem-limit 96MiB)
  second=$(until_made "$1" --mem-limit 64MiB)
  until_is "a job runs" running said "$first" state
  until_is "another runs" running said "$second" state
  third=$(pinfold submit --after "$first" -- sh -c 'exit 5')
  pinfold suspend "$second"
  group_of_first=$(echo "$service"/pinfold/*/job-"$first") group_of_second=$(echo "$service"/pinfold/*/job-"$second")
  until_is "which is frozen" "frozen 1" grep frozen "$group_of_second"/cgroup.events
  had=$(groups)
}
three_end() {
  pinfold resume "$second"
  touch "$1"
  waited "$first" 9
  waited "$second" 9
  waited "$third" 5
}

restarts() {
  echo "== the daemon is replaced in each way, while jobs run, are frozen and wait"
  three_jobs replaced
  through "killed" systemctl kill --signal=KILL --kill-whom=main pinfoldd
  through "killed again" systemctl kill --signal=KILL --kill-whom=main pinfoldd
  through "restarted" systemctl restart pinfoldd
  through "stopped and started" stop_and_start
  through "upgraded" package "dpkg installs it" --install /lab/newer.deb
  through "downgraded" package "dpkg installs it" --install /lab/pinfold.deb
  check "no unit has failed" "" "$(systemctl list-units --state=failed --no-legend --plain | cut -d ' ' -f 1 | tr '\n' ' ')"
  three_end replaced
}

earlier() {
  echo "== upgraded from the layout of earlier versions, whose jobs were below the daemon's own group"
  jobs_group=$service
  service=/sys/fs/cgroup$slice/pinfoldd.service
  systemctl mask --quiet --runtime --now pinfold-jobs.service
  systemctl start pinfoldd
  until_is "the daemon runs without a unit for jobs" active systemctl is-active pinfoldd
  three_jobs earlier-layout
  systemctl unmask --quiet --runtime pinfold-jobs.service
  if [ "$(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')" -lt 254 ]; then
    dpkg --install /lab/newer.deb
    check "the upgrade is refused while they run" 1 $?
    check "and the daemon runs on" active "$(systemctl is-active pinfoldd)"
    three_end earlier-layout
  else
    through "upgraded" package "dpkg installs it" --install /lab/newer.deb
    check "a new job is in systemd's group for jobs" "0::$slice/pinfold-jobs.service/pinfold" "$(as_worker pinfold run cut -d / -f 1-4 /proc/self/cgroup)"
    pinfold set "$first" --backfill
    until_is "a job's class is changed where the job is" 1 cat "$group_of_first"/cpu.idle
    through "killed" systemctl kill --signal=KILL --kill-whom=main pinfoldd
    three_end earlier-layout
  fi
  check "no group of a job is left there" "" "$(find $service/pinfold -name 'job-*' 2>/dev/null)"
  service=$jobs_group
  replaced "upgraded" package "dpkg installs it" --install /lab/newer.deb
  replaced "downgraded" package "dpkg installs it" --install /lab/pinfold.deb
}

delegated() {
  echo "== a user's own daemon in a unit with Delegate"
  systemd-run --quiet --wait --pipe -p User=worker -p Delegate=yes -E HOME=/home/worker sh /lab/delegated.sh
  check "it holds" 0 $?
}

before_restart() {
  echo "== the host is restarted"
  # In a session, which is told to end with all that is in it while services end; the others have no such thing.
  printf '%s\n' "echo \${PINFOLD_RESTARTS:-0}; until [ -e $kept/again ]; do sleep 0.2; done; exit 6" >again.sh
  systemd-run --quiet --scope --unit session-lab.scope pinfold submit --requeue -o again.out -- sh again.sh >again.job
  check "the service ends before sessions do" 1 "$(systemctl show -P Before session-lab.scope | grep -cw pinfoldd.service)"
  (cd /home/worker && as_worker pinfold submit -- sleep 100000) >lost.job
  until_is "a job that may begin anew runs" running said "$(cat again.job)" state
  until_is "one that may not runs" running said "$(cat lost.job)" state
  lost=$(cat lost.job)
  (cd /home/worker && as_worker pinfold submit --after "$lost" -o waits.out -- sh -c 'id -un; exit 5') >waits.job
  check "a user's job waits" queued "$(said "$(cat waits.job)" state)"
}

after_restart() {
  echo "== the host was restarted"
  until_is "the service is active" active systemctl is-active pinfoldd
  until_is "the job that may begins anew" running said "$(cat again.job)" state
  pinfold why "$(cat again.job)"
  touch again
  waited "$(cat again.job)" 6
  check "it was told" "0 1 " "$(tr '\n' ' ' <again.out)"
  waited "$(cat waits.job)" 5
  check "as its user" worker "$(cat /home/worker/waits.out)"
  check "of the other one it is said why it is over" 1 "$(pinfold why "$(cat lost.job)" | grep -c 'restarted while it ran')"
}

removed() {
  echo "== the package is removed"
  # One that runs on, thawed and without bounds.
  job=$(until_made removed --mem-limit 64MiB)
  until_is "a job runs" running said "$job" state
  group=$(dirname $service/pinfold/*/job-"$job"/cgroup.procs)
  pinfold suspend "$job"
  until_is "it is frozen" "frozen 1" sh -c "grep frozen $group/cgroup.events"
  package "dpkg removes it" --remove pinfold
  check "the service is gone" not-found "$(systemctl show -P LoadState pinfoldd)"
  check "the job goes on" "frozen 0" "$(grep frozen "$group"/cgroup.events)"
  check "without a bound" max "$(cat "$group"/memory.max)"
  check "the configuration is there still" '# by hand' "$(tail -n 1 /etc/pinfold/pinfold.toml)"
  touch removed
  # Systemd removes groups that nobody is in.
  until_is "it ends" 0 sh -c "cat $group/cgroup.events 2>/dev/null | grep -c 'populated 1'"
  package "dpkg purges it" --purge pinfold
  check "nothing of it is in the file system" "" "$(find /usr /etc /var /run -name '*pinfold*' ! -path '/var/log/*' ! -path '/run/systemd/*' ! -path "$kept/*" | tr '\n' ' ')"
  check "no unit has failed" "" "$(systemctl list-units --state=failed --no-legend --plain | cut -d ' ' -f 1 | tr '\n' ' ')"
}

# What the workload managers' parts have in common: how many jobs run, the PUs of who asks for them, one each of a list,
# how many of the PUs $1 are not among $2, and a word of a line.
running() { pinfold status --json | tr ',' '\n' | grep -c '"state": *"running"'; }
# shellcheck disable=SC2034
allowed='sed -n "s/^Cpus_allowed_list:[^0-9]*//p" /proc/self/status'
pus() { echo "$1" | tr ',' '\n' | while IFS=- read -r from to; do seq "$from" "${to:-$from}"; done; }
outside() { pus "$1" | while read -r pu; do pus "$2" | grep -x "$pu" >/dev/null || echo "$pu"; done | wc -l; }
word() { echo "$2" | cut -d ' ' -f "$1"; }

slurm() { . /lab/slurm.sh; }
condor() { . /lab/condor.sh; }
gridengine() { . /lab/gridengine.sh; }
managers() {
  slurm
  condor
  gridengine
}

finish() {
  [ $failed = 0 ] && echo "all held"
  [ $failed = 0 ] || systemctl status pinfoldd --no-pager --full
  [ $failed = 0 ] || journalctl --unit pinfoldd --no-pager --lines 60 --output cat
  echo "lab: exit $failed"
  # What was said is written by another process.
  sleep 1
  systemctl poweroff --force --force
}

# A part alone, for work on that.
only=$(sed -n 's/.*lab\.only=\([a-z]*\).*/\1/p' /proc/cmdline)
if [ -n "$only" ]; then
  echo "== the machine, for $only alone"
  install_it
  "$only"
  finish
elif [ ! -e booted ]; then
  touch booted
  echo "== the machine"
  systemctl --version | head -n 1
  check "control groups are of the second generation alone" cgroup2fs "$(stat -f -c %T /sys/fs/cgroup)"
  install_it
  # Without the service all else says the same.
  [ $failed = 0 ] || { finish; exit 1; }
  jobs
  reload
  crash
  restarts
  earlier
  upgrade
  delegated
  before_restart
  [ $failed = 0 ] || touch failed
  sync
  # As `systemctl reboot` does, which asks logind; there is none here.
  systemctl start --no-block --job-mode=replace-irreversibly reboot.target
else
  after_restart
  # They are installed on one of the releases.
  if command -v slurmctld >/dev/null; then managers; fi
  removed
  finish
fi
