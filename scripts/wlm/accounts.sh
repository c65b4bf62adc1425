# Whether a manager's accounting is the same with pinfold and without: to be sourced by wlm.sh.
#
# Each job does the same work, and says at its end how much CPU and time it took by the kernel's count. The manager's figures
# must agree with that, with hooks and without, however busy the host is. What the same work takes differs by more than 2 %
# while others compute on the same cores: that is compared only if some job of each kind had a core to itself.

# What is measured needs the same work each time: 6 million turns of a shell's loop.
work_script() {
  cat <<'JOB'
#!/bin/sh
begin=$(date +%s.%N)
i=0
while [ $i -lt 6000000 ]; do i=$((i+1)); done
times >"$0.times.$$"
echo "own $(awk 'NR < 3 { for (j = 1; j <= 2; j++) { split($j, part, "m"); cpu += 60 * part[1] + part[2] } } END { print cpu }' "$0.times.$$") \
$(echo "$begin $(date +%s.%N)" | awk '{ printf "%.3f", $2 - $1 }')"
JOB
}

# within A B PART RESOLUTION: they differ by so much of B at most, and what the figures' resolution adds.
within() {
  awk -v a="$1" -v b="$2" -v part="$3" -v resolution="$4" \
    'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a > 0 && b > 0 && d <= part * b + resolution) }'
}
least() { awk -v kind="$1" -v column="$2" '$1 == kind && (!n++ || $column < least) { least = $column } END { print least }' "$3"; }

# Lines of FILE: kind, "own", CPU and time as the job counted them, CPU and time as the manager tells them.
undisturbed() {
  awk '$4 <= 1.05 * $3 { quiet[$1] = 1 } END { exit !(quiet["with"] && quiet["without"]) }' "$1"
}
work_is_the_same() { within "$(least with 5 "$1")" "$(least without 5 "$1")" 0.02 0; }

# same_accounts JOB FILE: JOB with|without runs one job and prints its figures. Pairs are added until the least CPU of both
# kinds agrees, as others can only add to it.
same_accounts() {
  local round kind own cpu wall told_cpu told_wall
  : >"$2"
  for round in 1 2 3 4 5 6; do
    for kind in without with; do echo "$kind $("$1" $kind)" >>"$2"; done
    [ "$round" -lt 3 ] || ! undisturbed "$2" || ! work_is_the_same "$2" || break
    [ "$round" -lt 3 ] || undisturbed "$2" || break
  done
  while read -r kind own cpu wall told_cpu told_wall; do
    holds "$kind pinfold: CPU as the job counted it ($cpu s, told $told_cpu s)" within "$told_cpu" "$cpu" 0.02 0.02
    # Of time managers tell whole seconds.
    holds "$kind pinfold: time as the job counted it ($wall s, told $told_wall s)" within "$told_wall" "$wall" 0.02 1
  done <"$2"
  if undisturbed "$2"; then
    holds "the same work takes as much CPU with pinfold as without, within 2 %" work_is_the_same "$2"
  else
    say "what the work takes is not compared, as no job had a core to itself: the host is busy"
  fi
  say "least CPU without pinfold $(least without 5 "$2") s, with $(least with 5 "$2") s, of $((2 * round)) jobs"
}
