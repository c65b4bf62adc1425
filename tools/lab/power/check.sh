# Each disk is one that a power cut left: its file system, and the marks of what had really happened until then. A daemon
# is started on each, as after a restart of the host, and all jobs go to their end. Then no job began twice that did not ask
# for it, ends that somebody heard of are known, no number is given twice, nothing waits for ever, and the audit is whole.
set -u
. /lab/checks.sh
. /lab/power/marks.sh
export PINFOLD_SOCKET=/run/pinfold.sock
cd /tmp || exit 1
numbers() { tr ',{}' '\n\n\n' | sed -n 's/^"job": *//p'; }
waiting() { pinfold --no-autostart status --json | numbers | wc -l; }

for disk in /dev/vd?; do
  echo "== a cut: $(dd if="${disk}2" bs=512 skip=16383 count=1 2>/dev/null | tr -d '\0' | sed 's/ *$//')"
  mkdir -p /cut
  mount -t ext4 "${disk}1" /cut
  check "the file system is mounted" 0 $?
  ln -sf "${disk}2" /marks
  marks >/tmp/before
  pinfoldd --socket $PINFOLD_SOCKET --state-dir /cut/state 2>/tmp/log &
  daemon=$!
  until_is "the daemon is there" 0 sh -c 'pinfold --no-autostart status >/dev/null 2>&1; echo $?'
  pinfold keepers
  pinfold status --json | numbers | while read -r job; do pinfold release "$job" >/dev/null 2>&1; done
  until_is "nothing waits or runs any more" 0 waiting
  marks >/tmp/after
  check "no job began twice for the same time" "" "$(sed -n 's/^began: //p' /tmp/after | sort | uniq -d)"
  check "nor again without being asked to" "" "$(sed -n 's/^began: \([0-9]*\) .* once$/\1/p' /tmp/after | sort | uniq -d)"
  sed -n 's/^heard: //p' /tmp/before | while read -r job code; do
    found=$(pinfold report --json "$job" | tr ',{}' '\n\n\n' | sed -n 's/^"exit_code": *//p' | head -n 1)
    check "the end of job $job that somebody heard of" "$code" "$found"
  done >/tmp/ends
  cat /tmp/ends
  grep -q '^FAILED' /tmp/ends && failed=1
  pinfold audit --verify >/tmp/audit 2>&1
  check "the audit is whole" 0 $?
  last=$(sed -n 's/^[a-z]*: \([0-9]*\).*/\1/p' /tmp/before | sort -n | tail -n 1)
  next=$(pinfold submit -- true | sed -n 's/[^0-9]*\([0-9]*\).*/\1/p')
  check "the next number is a new one" 1 "$([ "$next" -gt "${last:-0}" ] && echo 1)"
  until_is "nothing is left" 0 waiting
  kill "$daemon"
  wait "$daemon"
  check "the daemon stops" 0 $?
  umount /cut
done
exit $failed
