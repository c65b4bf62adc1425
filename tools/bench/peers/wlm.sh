# A workload manager that takes orders: bash -c "$managers $this" wlm MANAGER SENT DIR CORES [PINFOLD SOCKET]
#   MANAGER: slurm, gridengine; SENT: once, twice (jobs a core), pinfold (twice, with its hooks)
# Says "ready", takes orders on its input, and says "done" when one is done:
#   run FILE     each line of FILE has run as a job
#   hand COUNT   so many scripts that do nothing are handed over, one after the other
#   over         no job is left
# At the end of its input, or at SIGTERM, all jobs and daemons are ended. What it has to say beside that goes to its standard
# error.
set -uo pipefail
manager=$1 sent=$2 work=$3 NODE_CORES=$4 pinfold=${5:-}
export PINFOLD_SOCKET=${6:-}
[ -n "$PINFOLD_SOCKET" ] || unset PINFOLD_SOCKET
PATIENCE=120
exec 3>&1 1>&2
trap 'managers_down "$work"' EXIT
trap 'exit 1' INT TERM HUP

slots=$NODE_CORES share=NO
[ "$sent" = once ] || { slots=$((2 * NODE_CORES)) share=FORCE:2; }
submit() { sbatch --parsable -n1 -J "$2" -o /dev/null "$1"; }
active() { squeue -h -o %i; }
if [ "$manager" = gridengine ]; then
  submit() { qsub -terse -V -N "$2" -o /dev/null -j y -S /bin/sh "$1"; }
  active() { qstat -u '*'; }
fi

hooked() {
  local job
  if [ "$manager" = slurm ]; then
    "$pinfold" --no-autostart wlm install slurm --to "$work/hooks" --apply
    return
  fi
  "$pinfold" --no-autostart wlm install gridengine --to "$work/hooks" >"$work/lines" || return
  gridengine_hooked "$work/lines" all.q || return
  # The execution daemon hears of it later.
  comes_to_pinfold() {
    job=$(qsub -terse -N probe -o /dev/null -j y -b y true)
    until_true sh -c "! qstat -u '*' | grep -q probe"
    "$pinfold" --no-autostart status "sge:$job"
  }
  until_true comes_to_pinfold
}

case $manager in
slurm) slurm_up "$work/manager" "$share" || exit 1 ;;
gridengine) gridengine_up "$work/manager" "$slots" || exit 1 ;;
esac
[ "$sent" != pinfold ] || hooked || exit 1
echo ready >&3
# An empty answer of a manager that could not be asked is none.
over() { until left=$(active) && [ -z "$left" ]; do sleep 0.2; done; }
run() {
  local number=0 line class
  while IFS= read -r line; do
    number=$((number + 1))
    printf '#!/bin/sh\n%s\n' "$line" >"$work/job-$number.sh"
    # What kind of work it is, as its owner would call it.
    class=$(sed "s#.*/run-\([A-Za-z0-9-]*\)' .*#\1#" <<<"$line")
    submit "$work/job-$number.sh" "$class" >/dev/null || exit 1
  done <"$1"
  over
}
hand() {
  local number
  printf '#!/bin/sh\ntrue\n' >"$work/nothing.sh"
  for ((number = 0; number < $1; number++)); do submit "$work/nothing.sh" nothing >/dev/null || exit 1; done
}
while read -r order what; do
  case $order in
  run) run "$what" ;;
  hand) hand "$what" ;;
  over) over ;;
  *)
    say "no such order: $order"
    exit 1
    ;;
  esac
  echo "done" >&3
done
