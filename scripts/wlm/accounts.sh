# Whether a manager's accounting is the same with pinfold and without: to be sourced by wlm.sh.
#
# Each job does the same work, and says at its end how much CPU and time it took by the kernel's count. Jobs with the hooks and
# without take turns, in pairs; each pair begins with the other kind. Compared are medians, so that what others compute at the
# same time counts little: of what the manager tells beside what the job counted itself, and, within pairs, of what the same
# work took with pinfold and without. Others add to both jobs of a pair by chance: pairs are added until the medians agree, or
# there are as many as may be.
PAIRS_LEAST=3 PAIRS_MOST=9

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
median() { sort -n | awk '{ all[NR] = $1 } END { if (NR) printf "%.4f", (all[int((NR + 1) / 2)] + all[int(NR / 2) + 1]) / 2 }'; }

# Lines of a file: the pair's number, kind, "own", CPU and time as the job counted them, CPU and time as the manager tells them.
# figure KIND EXPRESSION FILE: the median of that of all jobs of a kind; in it are cpu, wall, told_cpu, told_wall.
figure() {
  awk -v kind="$1" '$2 == kind && NF == 7 { cpu = $4; wall = $5; told_cpu = $6; told_wall = $7; print '"$2"' }' "$3" | median
}
# What the same work took with pinfold, for one without: the median of pairs.
work_ratio() {
  awk 'NF == 7 { told[$1, $2] = $6; if ($1 > pairs) pairs = $1 }
    END { for (i = 1; i <= pairs; i++) if (told[i, "without"] > 0) print told[i, "with"] / told[i, "without"] }' "$1" | median
}
work_is_the_same() { within "$(work_ratio "$1")" 1 0.02 0; }
whole() { [ "$(awk 'NF == 7' "$1" | wc -l)" = "$2" ]; }

# same_accounts JOB FILE: JOB with|without runs one job and prints its figures.
same_accounts() {
  local pair kind kinds ratio extra wall
  : >"$2"
  for pair in $(seq $PAIRS_MOST); do
    kinds='without with'
    [ $((pair % 2)) = 1 ] || kinds='with without'
    for kind in $kinds; do echo "$pair $kind $("$1" $kind)" >>"$2"; done
    [ "$pair" -lt $PAIRS_LEAST ] || ! work_is_the_same "$2" || break
  done
  holds "each job told its figures, and the manager those of it" whole "$2" $((2 * pair))
  for kind in without with; do
    ratio=$(figure $kind 'told_cpu / cpu' "$2")
    holds "$kind pinfold: CPU as jobs counted it, within 2 % (told $ratio of it)" within "$ratio" 1 0.02 0
    # Of time managers tell whole seconds.
    extra=$(figure $kind 'told_wall - wall' "$2") wall=$(figure $kind wall "$2")
    holds "$kind pinfold: time as jobs counted it, within 2 % and a second ($extra s more than $wall s)" \
      awk -v extra="$extra" -v wall="$wall" 'BEGIN { most = 0.02 * wall + 1; exit !(wall > 0 && extra <= most && extra >= -most) }'
  done
  ratio=$(work_ratio "$2")
  holds "the same work takes as much CPU with pinfold as without, within 2 % ($ratio)" work_is_the_same "$2"
  say "CPU told without pinfold $(figure without told_cpu "$2") s, with $(figure with told_cpu "$2") s; with / without $ratio (medians of $pair pairs)"
}
