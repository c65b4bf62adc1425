#!/bin/sh
# Run by a user as a unit that systemd handed a control group to: what the private daemon of theirs makes of it.
set -u
. /lab/checks.sh
group=$(cut -d : -f 3 /proc/self/cgroup)
cd "$HOME" || exit 1
# shellcheck disable=SC2016
inside='cd /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup) && echo "$PINFOLD_MODE $PWD $(cat memory.max) $(cat cpu.idle)"'
check "a job of theirs has a group below the unit's" "v2 /sys/fs/cgroup$group/pinfold 33554432 0" "$(pinfold run --mem-limit 32MiB sh -c "$inside" | sed 's|/pinfold/[^ ]*|/pinfold|')"
check "a backfiller is idle" "v2 /sys/fs/cgroup$group/pinfold max 1" "$(pinfold run --backfill sh -c "$inside" | sed 's|/pinfold/[^ ]*|/pinfold|')"
job=$(pinfold submit -- sh -c 'until [ -e go ]; do sleep 0.2; done; exit 9')
until_is "one runs" running said "$job" state
pinfold suspend "$job"
until_is "it is frozen" "frozen 1" sh -c "grep frozen /sys/fs/cgroup$group/pinfold/*/job-$job/cgroup.events"
pinfold resume "$job"
until_is "it goes on" "frozen 0" sh -c "grep frozen /sys/fs/cgroup$group/pinfold/*/job-$job/cgroup.events"
touch go
pinfold wait "$job"
check "its exit status" 9 $?
exit $failed
