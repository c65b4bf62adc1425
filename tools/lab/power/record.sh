# Has jobs run on a daemon whose state lies on the disk of which each write is logged, and marks what really happened.
set -u
. /lab/checks.sh
. /lab/power/marks.sh
export PINFOLD_SOCKET=/run/pinfold.sock
mkdir /disk
mount -t ext4 /dev/vda1 /disk
ln -s /dev/vda2 /marks
cd /tmp || exit 1
pinfoldd --socket $PINFOLD_SOCKET --state-dir /disk/state --set slots.factor=4 2>/tmp/log &
until_is "the daemon is there" 0 sh -c 'pinfold --no-autostart status >/dev/null 2>&1; echo $?'

# submit OPTIONS... -- once|again STATUS: prints the job's number, once that is marked as told
submit() {
  job=$(pinfold submit "$@" | sed -n 's/[^0-9]*\([0-9]*\).*/\1/p')
  mark "$job" $TOLD "told: $job"
  echo "$job"
}
# heard JOB: waits for its end, and marks that somebody heard of it
heard() {
  pinfold wait "$1" >/dev/null 2>&1
  mark "$1" $HEARD "heard: $1 $(pinfold report --json "$1" | tr ',{}' '\n\n\n' | sed -n 's/^"exit_code": *//p' | head -n 1)"
}

round=0
while [ $round -lt 3 ]; do
  echo "round $round"
  first=$(submit -- /lab/power/job.sh once 3)
  second=$(submit --requeue -- /lab/power/job.sh again 4)
  held=$(submit --hold -- /lab/power/job.sh once 5)
  heard "$first"
  pinfold run -- /lab/power/job.sh once 6
  pinfold release "$held"
  pinfold config set slots.factor=$((2 + round % 3)) >/dev/null
  heard "$second"
  heard "$held"
  # It waits when the power goes.
  submit --hold -- /lab/power/job.sh once 7 >/dev/null
  round=$((round + 1))
done
check "jobs began" 12 "$(marks | grep -c '^began:')"
check "users were told of them" 12 "$(marks | grep -c '^told:')"
check "ends were heard of" 9 "$(marks | grep -c '^heard:')"
exit $failed
