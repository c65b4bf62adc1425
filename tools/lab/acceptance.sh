# What must hold on a host with control groups v2 alone, several NUMA nodes and threads that share cores, read back from
# the kernel. Runs inside the lab's machine, as its root. The machine's clock is real while its processors are some
# twenty times slower: nothing here is a bound on time but those of patience.
set -u
cd /tmp || exit 1
export PINFOLD_SOCKET=/run/pinfold.sock
groups=/sys/fs/cgroup/pinfold

. /lab/checks.sh
expand() { echo "$1" | tr ',' '\n' | while IFS=- read -r from to; do seq "$from" "${to:-$from}"; done; }
of_job() { cat "$groups"/*/job-"$1"/"$2"; }

echo "== the crate that meets the kernel, on the kernel"
/lab/contract --test-threads 1 kernel_unified || failed=1

echo "== the machine"
pinfold topology
key() { tr ',{}' '\n\n\n' | sed -n "s/^\"$1\": *//p"; }
check "NUMA nodes" "$(ls -d /sys/devices/system/node/node[0-9]* | wc -l)" "$(pinfold topology --json | key numa_nodes)"
check "sockets" "$(cat /sys/devices/system/cpu/cpu*/topology/physical_package_id | sort -u | wc -l)" "$(pinfold topology --json | key sockets)"
check "cores" "$(cat /sys/devices/system/cpu/cpu*/topology/thread_siblings_list | sort -u | wc -l)" "$(pinfold topology --json | key cores)"
check "PUs" "$(nproc)" "$(pinfold topology --json | key pus)"

echo "== the daemon"
start_daemon() {
  # shellcheck disable=SC2086
  pinfoldd --socket $PINFOLD_SOCKET --state-dir /tmp/state --set slots.factor=2 --set profile.interval=500ms ${disk-} 2>/tmp/log &
  daemon=$!
  until_is "the daemon is there" 0 sh -c 'pinfold --no-autostart status >/dev/null 2>&1; echo $?'
}
start_daemon
pinfold doctor
check "mode" v2 "$(pinfold status --json | tr ',{}' '\n\n\n' | sed -n 's/^"mode": *"\(.*\)"$/\1/p')"
pinfold run sh -c 'exit 7'
check "an exit status" 7 $?
check "a job sees its group" "0::/pinfold" "$(pinfold run cat /proc/self/cgroup | cut -c 1-11)"

echo "== classes, cores, limits"
pus=$(nproc)
cores=$(pinfold status --json | tr ',{}' '\n\n\n' | sed -n 's/^"cores": *//p')
[ "$cores" -lt "$pus" ]
check "threads share cores ($pus PUs, $cores cores)" 0 $?
seq $((cores + 1)) | while read -r _; do pinfold submit -- sh -c 'until [ -e /tmp/go ]; do usleep 100000; done'; done >/tmp/jobs
first=$(sed -n 's/[^0-9]*\([0-9]*\).*/\1/p' /tmp/jobs | head -n 1)
last=$(sed -n 's/[^0-9]*\([0-9]*\).*/\1/p' /tmp/jobs | tail -n 1)
until_is "the last one runs beside a primary" backfill said "$last" class
until_is "the first is a primary" 0 of_job "$first" cpu.idle
until_is "a backfiller's group is idle" 1 of_job "$last" cpu.idle
main=$(head -n 1 "$groups"/*/job-"$last"/cgroup.procs)
check "a primary has a core of its own" "$(said "$first" cpus)" "$(of_job "$first" cpuset.cpus.effective)"
pinfold suspend "$first"
until_is "suspended, its group is frozen" "frozen 1" sh -c "grep frozen $groups/*/job-$first/cgroup.events"
pinfold resume "$first"
until_is "resumed, it is not" "frozen 0" sh -c "grep frozen $groups/*/job-$first/cgroup.events"
touch /tmp/go
pinfold wait "$first" "$last"
check "all ended well" 0 $?
check "a limit is the kernel's" 67108864 "$(pinfold run --mem-limit 64MiB sh -c 'cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/memory.max')"

echo "== a group that was delegated to a user"
box=/sys/fs/cgroup/box
mkdir $box /tmp/box
chown nobody $box $box/cgroup.procs $box/cgroup.subtree_control /tmp/box
# shellcheck disable=SC2016
echo 'cd /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup) && echo "$PWD $(cat memory.max) $(cat cpu.idle)" | sed "s|/pinfold/.*/job-[0-9]*|/pinfold/job|"' >/tmp/box/inside
# A group that hands controllers down takes no process itself: once their daemon runs, its own group is the place.
as_theirs() { sh -c "echo \$\$ >\$(ls -d $box/pinfold-daemon 2>/dev/null || echo $box)/cgroup.procs && exec su -s /bin/sh nobody -c 'cd /tmp/box; export HOME=/tmp/box PINFOLD_SOCKET=/tmp/box/pinfold.sock; $1'"; }
# The first command starts their daemon, which may take longer here than a command waits for it.
# shellcheck disable=SC2016
until_is "a daemon of theirs runs" 0 as_theirs 'pinfold run true >/dev/null 2>&1; echo $?'
check "a limit holds without root, and nothing is warned of" "$box/pinfold/job 33554432 0" "$(as_theirs 'pinfold run --mem-limit 32MiB sh inside 2>&1')"
check "a best-effort job is idle" "$box/pinfold/job max 1" "$(as_theirs 'pinfold run --backfill sh inside 2>&1')"
check "doctor says so" 1 "$(as_theirs 'pinfold doctor' | grep -c "delegation: $box is this daemon.s, with cpu cpuset io memory pids")"
check "every limit is real" 5 "$(as_theirs 'pinfold doctor' | grep -c '^yes  *\(limit\|processes\|weigh\|pin\|freeze\) ')"
their_daemon=$(head -n 1 $box/pinfold-daemon/cgroup.procs)
theirs=$(as_theirs 'pinfold submit -o /dev/null -e /dev/null -- sh -c "until [ -e /tmp/box/go ]; do usleep 100000; done; exit 9"')
until_is "one runs" 1 sh -c "ls -d $box/pinfold/*/job-$theirs | wc -l"
as_theirs "pinfold suspend $theirs"
until_is "suspended, its group is frozen" "frozen 1" sh -c "grep frozen $box/pinfold/*/job-$theirs/cgroup.events"
as_theirs "pinfold resume $theirs"
touch /tmp/box/go
as_theirs "pinfold wait $theirs"
check "its exit status" 9 $?
kill "$their_daemon"
until_is "it leaves no group" 0 sh -c "ls -d $box/pinfold 2>/dev/null | wc -l"

echo "== where memory lies"
# No job here holds zeros: since 6.12 the kernel gives a page of zeros back (to the zero page) when it divides a huge page, as it
# does when it moves or reclaims memory, and the job then holds less than it wrote. A MiB of something else, made once, as
# that is slow here:
head -c 1048576 /dev/zero | tr '\0' x >/tmp/mib
# shellcheck disable=SC2016
job=$(pinfold submit -- sh -c 'for step in $(seq 48); do cat /tmp/mib; done | tail -c 50331648 | (until [ -e /tmp/seen ]; do usleep 100000; done; cat >/dev/null)' | sed -n 's/[^0-9]*\([0-9]*\).*/\1/p')
told() { pinfold report --json "$job" | tr ',{}[]' '\n\n\n\n\n' | sed -n "s/^\"$1\": *//p"; }
nodes=$(ls -d /sys/devices/system/node/node[0-9]* | wc -l)
until_is "each node is told of" "$nodes" sh -c "pinfold report --json $job | tr ',{}[]' '\n\n\n\n\n' | grep -c '^\"node\":'"
until_is "what it holds is there" 1 sh -c "pinfold report --json $job | tr ',{}[]' '\n\n\n\n\n' | sed -n 's/^\"memory_peak_bytes\": *//p' | sort -n | awk '{ all = \$1 } END { print (all > 48000000) }'"
beside_its_cores() { told numa_local | awk '{ print ($1 > 0.8) }'; }
until_is "beside its cores" 1 beside_its_cores
touch /tmp/seen
pinfold wait "$job"
check "it ended well" 0 $?
check "and is told of afterwards" "$nodes" "$(pinfold report --json "$job" | tr ',{}[]' '\n\n\n\n\n' | grep -c '^"node":')"

# A job whose need is known is bound to the node of its core; three of a little more than half a node are one chunk. What
# the kernel keeps for each processor of what was given back is counted as free a while later: 5 % are more than that.
# What each node has for jobs in KiB, the least first.
rooms() { for node in /sys/devices/system/node/node[0-9]*; do awk '/MemTotal/ { sum -= $4 / 50 } /MemFree|Active\(file\)|Inactive\(file\)/ { sum += $4 } END { print int(sum) }' "$node"/meminfo; done | sort -n; }
need=$(($(rooms | tail -n 1) * 55 / 100))
pinfold config set host.memory_reserve=1MiB
near() { cat "$groups"/*/job-"$1"/cpuset.mems; }
core_node() { basename "$(ls -d /sys/devices/system/cpu/cpu"$(said "$1" cpus | sed 's/[,-].*//')"/node[0-9]*)" | tr -d node; }
rm -f /tmp/near
submit_near() { pinfold submit --mem "$1"K -- sh -c 'until [ -e /tmp/near ]; do usleep 100000; done' | sed -n 's/[^0-9]*\([0-9]*\).*/\1/p'; }
one=$(submit_near $need)
until_is "a job whose need is known runs" running said "$one" state
until_is "its memory is bound to the node of its core" "$(core_node "$one")" near "$one"
other=$(submit_near $need)
until_is "another does not fit there" running said "$other" state
until_is "and is bound to the other node" "$((1 - $(core_node "$one")))" near "$other"
check "where its core is" "$(core_node "$other")" "$(near "$other")"
# More than either has left, less than both have.
third=$(rooms | { read -r small && read -r large && submit_near $(((small + 2 * large - 3 * need) / 2)); })
until_is "for a third both are one" "0-1" near "$third"
until_is "also for those who were there" "0-1" near "$one"
pinfold map
pinfold why "$third"
pinfold cancel "$third"
pinfold wait "$third"
until_is "without it each has its own again" "$(core_node "$one")" near "$one"
kill -KILL "$daemon"
until_is "without a daemon nobody is bound" "0-1" near "$one"
start_daemon
touch /tmp/near
pinfold wait "$one" "$other"
check "they end well" 0 $?
pinfold config set host.memory_reserve=

echo "== a PU goes off line"
rm -f /tmp/online
job=$(pinfold submit --cpu-bind "map_cpu:$(($(nproc) - 1))" -- sh -c 'until [ -e /tmp/online ]; do usleep 100000; done' | sed -n 's/[^0-9]*\([0-9]*\).*/\1/p')
until_is "a job runs on the last core" running said "$job" state
had=$(said "$job" cpus)
for pu in $(expand "$had"); do echo 0 >/sys/devices/system/cpu/cpu"$pu"/online; done
until_is "the daemon has a core less" "$((cores - 1))" sh -c "pinfold status --json | tr ',{}' '\n\n\n' | sed -n 's/^\"cores\": *//p'"
until_is "the job runs on" running said "$job" state
check "elsewhere" 0 "$(expand "$(of_job "$job" cpuset.cpus.effective)" | grep -cx "${had%%[,-]*}")"
until_is "and it is said why" 1 sh -c "pinfold why $job | grep -c 'gone or no longer allowed' | sed 's/[1-9][0-9]*/1/'"
for pu in $(expand "$had"); do echo 1 >/sys/devices/system/cpu/cpu"$pu"/online; done
until_is "the core is there again" "$cores" sh -c "pinfold status --json | tr ',{}' '\n\n\n' | sed -n 's/^\"cores\": *//p'"
# The kernel brings one PU after the other back; with the first the core is there.
until_is "with all its PUs" "$(nproc)" sh -c "pinfold map --json | tr '{' '\n' | grep -c '\"usable\":true'"
touch /tmp/online
pinfold wait "$job"
check "it ended well" 0 $?

echo "== layouts are the kernel's masks"
for options in "-n 4" "-n 2 -c 2" "-n 4 --hint nomultithread" "-n 4 --cpu-bind threads" "-n 2 --cpu-bind sockets" "-n 3 -m cyclic --cpu-bind cores"; do
  # shellcheck disable=SC2016,SC2086
  pinfold run $options sh -c 'echo "$PINFOLD_TASK_ID $(sed -n "s/^Cpus_allowed_list:[^0-9]*//p" /proc/self/status) $(cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/cpuset.cpus.effective) $PINFOLD_JOB_ID"' | sort -n >/tmp/found
  # `run` may return before the job is on record as over, and its cores are free.
  pinfold wait "$(head -n 1 /tmp/found | cut -d ' ' -f 4)"
  allocated=$(head -n 1 /tmp/found | cut -d ' ' -f 3)
  # shellcheck disable=SC2086
  planned=$(pinfold layout $options --free "$allocated" --json | sed 's/.*"tasks"//' | grep -o '"cpus":"[^"]*"' | cut -d '"' -f 4 | tr '\n' ' ')
  check "$options on $allocated" "$planned" "$(cut -d ' ' -f 2 /tmp/found | tr '\n' ' ')"
done

echo "== close together and apart"
sockets_of() { for pu in $(expand "$1"); do cat /sys/devices/system/cpu/cpu"$pu"/topology/physical_package_id; done | sort -u | wc -l; }
for place in compact:1 auto:1 spread:2; do
  # shellcheck disable=SC2016
  found=$(pinfold run --cores 2 --place "${place%:*}" sh -c 'echo "$PINFOLD_JOB_ID $(cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/cpuset.cpus.effective)"')
  # The next one is to find the same cores free.
  pinfold wait "${found%% *}"
  check "two cores, $place" "${place#*:}" "$(sockets_of "${found#* }")"
done
pinfold config set cpu.place=spread
# shellcheck disable=SC2016
check "as the host says" 2 "$(sockets_of "$(pinfold run --cores 2 sh -c 'cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/cpuset.cpus.effective')")"
pinfold config set cpu.place=auto

echo "== cores of a job's own"
mask() { sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/"$1"/status; }
# What is in the first list and not in the second.
without() { { expand "$1"; expand "$2"; expand "$2"; } | sort -n | uniq -u | tr '\n' ' '; }
interrupts() { cat /proc/irq/*/smp_affinity_list; }
# Of kernel threads that are there all the time. Workers come and go, and the kernel lets nobody move them.
threads() { for pid in $(ls /proc | grep '^[0-9]*$'); do [ "$pid" -lt 40 ] && [ -z "$(cat /proc/"$pid"/cmdline 2>/dev/null)" ] && ! grep -q '^kworker' /proc/"$pid"/comm && mask "$pid"; done 2>/dev/null; }
# Those on all PUs still that the kernel would let go: it does as it is asked, or has them bound (PF_NO_SETAFFINITY).
movable() {
  for pid in $(ls /proc | grep '^[0-9]*$'); do
    [ "$pid" -lt 40 ] && [ "$(mask "$pid")" = "$all" ] && [ $(($(cut -d ' ' -f 9 /proc/"$pid"/stat) & 0x4000000)) = 0 ] && [ -z "$(cat /proc/"$pid"/cmdline)" ] && echo "$pid"
  done 2>/dev/null | wc -l
}
movable_interrupts() {
  for list in /proc/irq/*/smp_affinity_list; do
    [ "$(cat "$list")" = "$all" ] && echo 2 2>/dev/null >"$list" && echo "$all" >"$list" && echo "$list"
  done 2>/dev/null | wc -l
}
sh -c 'while :; do :; done' &
other=$!
all=$(mask $other)
interrupts_before=$(interrupts) threads_before=$(threads)
# Partitions below groups that are none came with 6.7.
partitions=$(uname -r | { IFS=. read -r major minor _; [ "$major" -gt 6 ] || { [ "$major" = 6 ] && [ "$minor" -ge 7 ]; } && echo yes || echo no; })
kind=root
[ $partitions = no ] && kind=member && echo "SKIPPED in part: kernel $(uname -r) has no partitions below other groups"
pinfold config set cpu.housekeeping=on
isolate() {
  rm -f /tmp/alone
  job=$(pinfold submit --isolated -- sh -c 'until [ -e /tmp/alone ]; do usleep 100000; done' | sed -n 's/[^0-9]*\([0-9]*\).*/\1/p')
  until_is "an isolated job runs" running said "$job" state
  own=$(of_job "$job" cpuset.cpus.effective)
}
isolate
check "it has a whole core" "$(cat /sys/devices/system/cpu/cpu"${own%%[,-]*}"/topology/thread_siblings_list)" "$own"
check "its group is a partition" $kind "$(of_job "$job" cpuset.cpus.partition)"
[ $partitions = no ] || until_is "nobody else has its PUs" "$(without "$all" "$own")" sh -c "sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/$other/status | tr ',' '\n' | while IFS=- read -r from to; do seq \$from \${to:-\$from}; done | tr '\n' ' '"
check "interrupts that may move are off them" 0 "$(movable_interrupts)"
check "kernel threads that may move are off them" 0 "$(movable)"
pinfold why "$job"
beside=$(pinfold run sh -c 'cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/cpuset.cpus.effective')
check "a job beside it is elsewhere" "$(expand "$beside" | tr '\n' ' ')" "$(without "$beside" "$own")"
touch /tmp/alone
pinfold wait "$job"
check "it ends well" 0 $?
until_is "its PUs are everybody's" "$all" mask $other
until_is "interrupts are where they were" "$interrupts_before" interrupts
until_is "kernel threads are where they were" "$threads_before" threads
isolate
kill -KILL "$daemon"
check "the daemon is killed: it is alone still" $kind "$(of_job "$job" cpuset.cpus.partition)"
start_daemon
until_is "the next daemon knows it" running said "$job" state
check "and leaves it alone" $kind "$(of_job "$job" cpuset.cpus.partition)"
touch /tmp/alone
pinfold wait "$job"
until_is "its PUs are everybody's again" "$all" mask $other
isolate
kill -KILL "$daemon"
pinfold rescue
until_is "rescued, its PUs are everybody's" "$all" mask $other
until_is "interrupts are where they were once more" "$interrupts_before" interrupts
touch /tmp/alone
start_daemon
pinfold wait "$job"
check "it ends well all the same" 0 $?
kill $other

echo "== a node of a set's own"
# What a job has on a node, in MiB, by its processes' page tables: a group's counts are summed up when the kernel finds the
# time. Up to 5 MiB may stay where they were: of 48, 41 are where they should be at the least. A job that looks at nothing is asked for
# some of it where memory presses, as it may in a slow emulator: that is in swap, and on no node.
swapped() { echo $(($(cat "$groups"/*/job-"$1"/memory.swap.current) >> 20)); }
lies() {
  for pid in $(cat "$groups"/*/job-"$1"/cgroup.procs); do cat /proc/"$pid"/numa_maps; done 2>/dev/null | tr ' ' '\n' |
    awk -F = -v node="N$2" '$1 == "anon" { own = 1 } $1 == node { pages = $2 } $1 == "kernelpagesize_kB" { if (own) sum += pages * 4; own = pages = 0 } END { print int(sum / 1024) }'
}
much() { [ $(($(lies "$1" "$2") + $(swapped "$1"))) -ge 35 ] && echo yes || echo no; }
little() { [ "$(lies "$1" "$2")" -lt 5 ] && echo yes || echo no; }
rm -f /tmp/alone /tmp/enough
other=$(pinfold submit --name holds -- sh -c '(for step in $(seq 48); do cat /tmp/mib; done; until [ -e /tmp/enough ]; do usleep 100000; done) | tail -n 1 | wc -c' | sed -n 's/[^0-9]*\([0-9]*\).*/\1/p')
until_is "a job runs" running said "$other" state
here=$(core_node "$other") there=$((1 - $(core_node "$other")))
all_of_it() { [ $(($(lies "$1" 0) + $(lies "$1" 1) + $(swapped "$1"))) -ge 46 ] && echo yes || echo no; }
until_is "it holds all that it reads" yes all_of_it "$other"
until_is "its memory is beside its core" yes much "$other" "$here"
check "and may lie anywhere" 0-1 "$(of_job "$other" cpuset.mems.effective)"
# By hand it comes to lie beside the other cores.
echo "$there" >"$(echo "$groups"/*/job-"$other"/cpuset.mems)"
echo 0-1 >"$(echo "$groups"/*/job-"$other"/cpuset.mems)"
until_is "it lies on the other node" yes much "$other" "$there"
job=$(pinfold submit --isolated --cores 2 -- sh -c 'until [ -e /tmp/alone ]; do usleep 100000; done' | sed -n 's/[^0-9]*\([0-9]*\).*/\1/p')
until_is "an isolated job of two cores runs" running said "$job" state
# What was in swap by then was on no node when the daemon looked what others have there.
was_swapped=$(swapped "$other")
check "on all PUs of that node" "$(cat /sys/devices/system/node/node"$there"/cpulist)" "$(of_job "$job" cpuset.cpus.effective)"
until_is "less than 1 % of it is the other's" yes little "$other" "$there"
until_is "it lies where the other runs" yes much "$other" "$here"
echo "node 0: $(lies "$other" 0) MiB, node 1: $(lies "$other" 1) MiB, swap: $(swapped "$other") MiB"
pinfold why "$other"
check "and stays there" "$here" "$(near "$other")"
pinfold why "$job"
until_is "it is said what was found" 1 sh -c "pinfold why $job | grep -c 'its NUMA nodes .*node $there: others held .* since it was moved away'"
check "and what was done" 1 "$(pinfold why "$job" | grep -c "clear NUMA node $there")"
check "to the other, too" 1 "$(pinfold why "$other" | grep -c "keep its memory on NUMA node $here")"
went() { echo "$(said "$job" foreign_before)" "$(said "$job" foreign_after)" "$(awk '/MemTotal/ { print $4 }' /sys/devices/system/node/node"$there"/meminfo) $was_swapped" | awk '{ print (($1 - $2) * $3 + $4 * 1024 > 36 * 1024) }'; }
until_is "that is 36 MiB of the node less at least, with what was in swap" 1 went
beside=$(pinfold run sh -c 'cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/cpuset.mems')
check "who starts now stays off it as well" "$here" "$beside"
kill -KILL "$daemon"
until_is "without a daemon nobody is kept off" 0-1 near "$other"
start_daemon
until_is "the next one keeps the other off again" "$here" near "$other"
touch /tmp/alone
pinfold wait "$job"
until_is "it is over, and the node is everybody's" 0-1 near "$other"
touch /tmp/enough
pinfold wait "$other"
check "the other ended well" 0 $?

echo "== the daemon is killed while jobs run"
job=$(pinfold submit -- sh -c 'until [ -e /tmp/gone ]; do usleep 100000; done; exit 9' | sed -n 's/[^0-9]*\([0-9]*\).*/\1/p')
until_is "it runs" running said "$job" state
pinfold suspend "$job"
until_is "it is frozen" frozen said "$job" state
kill -KILL "$daemon"
until_is "the guard lets it go on" "frozen 0" sh -c "grep frozen $groups/*/job-$job/cgroup.events"
start_daemon
until_is "it is known again, and suspended as its user said" frozen said "$job" state
pinfold resume "$job"
touch /tmp/gone
pinfold wait "$job"
check "its exit status" 9 $?

echo "== processes that run already"
(until [ -e /tmp/adopted ]; do usleep 100000; done) &
outside=$!
job=$(pinfold adopt --pid $outside | tr -dc 0-9)
until_is "one becomes a job" running said "$job" state
until_is "it is in the job's group" $outside sh -c "grep -x $outside $groups/*/job-$job/cgroup.procs"
pinfold suspend "$job"
until_is "and is frozen with it" "frozen 1" sh -c "grep frozen $groups/*/job-$job/cgroup.events"
kill -KILL "$daemon"
until_is "the guard lets it go on, too" "frozen 0" sh -c "grep frozen $groups/*/job-$job/cgroup.events"
start_daemon
until_is "the next daemon knows it, and suspends it again" frozen said "$job" state
pinfold resume "$job"
touch /tmp/adopted
wait $outside
check "who started it is told how it ended" 0 $?
pinfold wait "$job"
until_is "its group is gone" 0 sh -c "ls -d $groups/*/job-$job 2>/dev/null | wc -l"

echo "== directories on a disk"
if grep -q ' /disk ext4 .*prjquota' /proc/mounts; then
  pinfold config set modules.disk=/disk modules.disk_total=24MiB
  # Root may go beyond any quota.
  as_user() { su -s /bin/sh nobody -c "cd /tmp && PINFOLD_SOCKET=$PINFOLD_SOCKET $1"; }
  # shellcheck disable=SC2016
  fill='cd $PINFOLD_DISK_DIR && stat -c "%a %u" . && mkdir below && head -c 4194304 /dev/zero >below/first && head -c 8388608 /dev/zero >second 2>/dev/null; echo $? $(cat second | wc -c)'
  as_user "pinfold run --disk 8MiB sh -c '$fill'" >/tmp/filled
  check "it is its user's" "700 65534" "$(head -n 1 /tmp/filled)"
  check "what is beyond its size is refused" 1 "$(tail -n 1 /tmp/filled | cut -d ' ' -f 1)"
  check "and what is within is not" 1 "$(tail -n 1 /tmp/filled | awk '{ print ($2 > 3000000 && $2 < 4300000) }')"
  until_is "it is gone with the job" 0 sh -c 'ls -d /disk/pinfold-*/job-* 2>/dev/null | wc -l'
  # The number of the first is free again for the second, and two at once have two.
  as_user "pinfold submit --disk 12MiB -o /dev/null -e /dev/null -- sh -c 'head -c 11000000 /dev/zero >\$PINFOLD_DISK_DIR/x; until [ -e /tmp/disk ]; do usleep 100000; done'" >/tmp/holds
  until_is "one runs" running said "$(tr -dc 0-9 </tmp/holds)" state
  as_user "pinfold run --disk 8MiB sh -c '$fill'" >/tmp/filled
  check "another has its own room" 1 "$(tail -n 1 /tmp/filled | awk '{ print ($2 > 3000000 && $2 < 4300000) }')"
  as_user "pinfold submit --disk 20MiB -o /dev/null -e /dev/null -- true" >/tmp/waits
  until_is "one that does not fit beside it waits" 1 sh -c "pinfold why $(tr -dc 0-9 </tmp/waits) | grep -c 'modules.disk_total'"
  kill -KILL "$daemon"
  disk="--set modules.disk=/disk --set modules.disk_total=24MiB"
  start_daemon
  until_is "known again when the daemon was killed" running said "$(tr -dc 0-9 </tmp/holds)" state
  touch /tmp/disk
  pinfold wait "$(tr -dc 0-9 </tmp/holds)" "$(tr -dc 0-9 </tmp/waits)"
  check "both ended well" 0 $?
  until_is "nothing is left of them" 0 sh -c 'ls -d /disk/pinfold-*/job-* 2>/dev/null | wc -l'
  check "doctor says what keeps them" 1 "$(pinfold doctor | grep -c 'kept to its size by a project quota')"
else
  echo "SKIPPED in part: no disk with project quotas"
fi

echo "== memory"
check "there is swap" 1 "$(grep -c /dev/vda /proc/swaps)"
pinfold config set host.memory=256MiB
until_is "the budget is the kernel's" "0" sh -c 'grep -q max /sys/fs/cgroup/pinfold/*/memory.max; echo $(( ! $? ))'
# Whose memory goes last.
first=$(pinfold submit --name first -- sh -c '(for step in $(seq 40); do cat /tmp/mib; done; until [ -e /tmp/enough ]; do usleep 100000; done) | tail -n 1 | wc -c' | sed -n 's/[^0-9]*\([0-9]*\).*/\1/p')
until_is "the first runs" running said "$first" state
until_is "its memory goes last" 0 sh -c "grep -qx 0 $groups/*/job-$first/memory.low; echo \$(( ! \$? ))"
check "it is not slowed" max "$(of_job "$first" memory.high)"
touch /tmp/enough
pinfold wait "$first"
check "it ended well" 0 $?

echo "== what a job does without"
# One that holds much and does not look at it again, and one that grows: the first is asked for a little, and runs on without refaults.
rm -f /tmp/end
pinfold config set host.memory=160MiB
first=$(pinfold submit --name foremost -- sh -c 'until [ -e /tmp/end ]; do usleep 50000; done' | sed -n 's/[^0-9]*\([0-9]*\).*/\1/p')
until_is "the foremost runs" running said "$first" state
keeper=$(pinfold submit --name keeper -- sh -c '(for step in $(seq 96); do cat /tmp/mib; done; until [ -e /tmp/end ]; do usleep 100000; done) | tail -n 1 | wc -c' | sed -n 's/[^0-9]*\([0-9]*\).*/\1/p')
until_is "one holds 96 MiB" 1 sh -c "awk '/^anon /{ print (\$2 > 96000000) }' $groups/*/job-$keeper/memory.stat"
# On a busy machine it may be asked while it still reads, takes back what went, and is let alone until another one grows.
probed() { pinfold why "$keeper" --json | grep -q 'this shows whether it runs as well'; }
not_refaulted() { pinfold why "$keeper" | grep -q 'in swap, not refaulted'; }
# What was seen counts. Asked again, it may be otherwise by then.
was_probed=1 was_left=1
for try in 1 2 3 4; do
  other=$(pinfold submit --name other -- sh -c '(for step in $(seq 60); do cat /tmp/mib; done; until [ -e /tmp/end ]; do usleep 100000; done) | tail -n 1 | wc -c' | sed -n 's/[^0-9]*\([0-9]*\).*/\1/p')
  if happens probed; then
    was_probed=0
    if happens not_refaulted; then was_left=0; break; fi
  fi
  pinfold why "$keeper" | tail -n 5
  [ $try = 4 ] || { pinfold cancel --signal KILL "$other"; pinfold wait "$other"; }
done
check "it is probed when another grows" 0 $was_probed
check "and does not refault" 0 $was_left
until_is "it runs" running said "$keeper" state
until_is "its pages are in swap" 0 sh -c "awk '{ print (\$1 < 4194304) }' $groups/*/job-$keeper/memory.swap.current"
touch /tmp/end
pinfold wait "$first" "$keeper" "$other"
check "all three ended well" 0 $?

echo "== growth is slowed"
# One that grows to more than there is. What it must feel is the kernel's bound, before it is frozen or without that. On a busy
# machine it may grow too fast to be looked at meanwhile, and is frozen at once. Then another one grows, in turn as fast as
# this machine reads a pipe and in steps. There is too little swap for a probe, which would take from it as much as it grows by,
# and enough for what the kernel takes from it at its bound.
rm -f /tmp/end
pinfold config set host.memory=128MiB host.swap=64MiB
first=$(pinfold submit --name ticks -- sh -c 'until [ -e /tmp/end ]; do echo >>/tmp/ticks; usleep 50000; done' | sed -n 's/[^0-9]*\([0-9]*\).*/\1/p')
until_is "another runs" running said "$first" state
felt() { grep -q 'high [1-9]' "$groups"/*/job-"$1"/memory.events; }
grows_fast='for step in $(seq 200); do cat /tmp/mib; done'
grows_in_steps='for step in $(seq 200); do cat /tmp/mib; usleep 20000; done'
slowed() { pinfold why "$1" --json | grep -q 'throttle its growth after'; }
# One that was frozen first is slowed no more.
slowed_or_frozen() { slowed "$1" || pinfold why "$1" | grep -q ' freeze: '; }
felt_or_let_go() { felt "$1" || pinfold why "$1" --json | grep -q 'let it grow again'; }
was_slowed=1 has_felt=1
for try in $(seq 20); do
  if [ $((try % 2)) = 1 ]; then grows=$grows_fast; else grows=$grows_in_steps; fi
  grower=$(pinfold submit --name "grower$try" -- sh -c "($grows; until [ -e /tmp/end ]; do usleep 100000; done) | tail -n 1 | wc -c" | sed -n 's/[^0-9]*\([0-9]*\).*/\1/p')
  if happens slowed_or_frozen "$grower" && slowed "$grower"; then
    was_slowed=0
    if happens felt_or_let_go "$grower" && felt "$grower"; then has_felt=0; break; fi
  fi
  pinfold why "$grower" | tail -n 5
  pinfold cancel --signal KILL "$grower"
  pinfold wait "$grower"
done
check "the one that grows is slowed" 0 $was_slowed
check "and feels it" 0 $has_felt
of_job "$grower" memory.events | grep '^high'
of_job "$grower" memory.high
check "the other does not" "high 0" "$(of_job "$first" memory.events | grep '^high')"
before=$(wc -l </tmp/ticks)
until_is "and goes on" 0 sh -c "[ \$(wc -l </tmp/ticks) -gt $((before + 20)) ]; echo \$?"
until_is "it grows again or stands still in the end" 1 sh -c "pinfold why $grower --json | grep -c 'let it grow again' | sed 's/[1-9][0-9]*/1/'"
until_is "and is bound no more" max of_job "$grower" memory.high
pinfold why "$grower"
pinfold cancel --signal KILL "$grower"
touch /tmp/end
pinfold wait "$first"
check "the other ended well" 0 $?
# Its group is there until its last process is gone, which may be a while after the job's end; a daemon that ends waits for
# that for a moment only.
pinfold wait "$grower"
until_is "no job has a group any more" 0 sh -c "ls -d $groups/*/job-* 2>/dev/null | wc -l"
kill "$daemon"
wait "$daemon"
check "it leaves nothing" 0 "$(find /sys/fs/cgroup -name 'job-*' | wc -l)"
[ $failed = 0 ] && echo "all held"
exit $failed
