#!/bin/sh
# What must hold on a Debian system with systemd: the package and its service, jobs of several users, what systemd does to
# the service's groups. Runs inside the lab's full machine, as a service. The machine's clock is real while its
# processors are some twenty times slower: nothing here is a bound on time but those of patience.
set -u
. /lab/checks.sh
kept=/var/lib/lab
mkdir -p $kept
cd $kept || exit 1
service=/sys/fs/cgroup/system.slice/pinfoldd.service
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
  check "the daemon is in a group of its own" "0::/system.slice/pinfoldd.service/pinfold-daemon" "$(cat /proc/"$(unit MainPID)"/cgroup)"
  for controller in cpu cpuset memory pids; do
    check "it hands down $controller" 1 "$(grep -cw $controller $service/cgroup.subtree_control)"
  done
  check "mode" v2 "$(pinfold --no-autostart status --json | tr ',{}' '\n\n\n' | sed -n 's/^"mode": *"\(.*\)"$/\1/p')"
  check "systemd has nothing to say against its unit" "" "$(systemd-analyze verify --man=no pinfoldd.service 2>&1 | grep pinfoldd)"
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
  check "a job is below the service" "0::/system.slice/pinfoldd.service/pinfold" "$(as_worker pinfold run cut -d / -f 1-4 /proc/self/cgroup)"
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
  systemctl set-property --runtime pinfoldd.service CPUWeight=50 MemoryMax=700M
  check "systemd sets the service's own weight" 50 "$(cat $service/cpu.weight)"
  check "and bound" 734003200 "$(cat $service/memory.max)"
  check "and leaves the job's settings" "$before" "$(settings "$job")"
  check "and what is handed down still" "$down" "$(handed_down)"
  systemctl set-property --runtime pinfoldd.service CPUWeight= MemoryMax=infinity
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

finish() {
  [ $failed = 0 ] && echo "all held"
  [ $failed = 0 ] || systemctl status pinfoldd --no-pager --full
  [ $failed = 0 ] || journalctl --unit pinfoldd --no-pager --lines 60 --output cat
  echo "lab: exit $failed"
  # What was said is written by another process.
  sleep 1
  systemctl poweroff --force --force
}

echo "== the machine"
systemctl --version | head -n 1
check "control groups are of the second generation alone" cgroup2fs "$(stat -f -c %T /sys/fs/cgroup)"
install_it
# Without the service all else says the same.
[ $failed = 0 ] && jobs && reload
finish
