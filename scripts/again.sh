#!/usr/bin/env bash
# The whole suite again and again, each time from a clean clone of the commit that is checked out: what fails once in ten
# runs fails somebody's change. Of RUNS runs (10) the odd ones have BUSY processes (4) beside them that compute all the
# time, the second takes one test at a time, the fourth draws the order of the tests anew, and the fifth and sixth repeat
# under all rights what is the same under each (PINFOLD_ALL_RIGHTS).
#
# Prints a line a run; the output of each is kept in AGAIN_DIR (a temporary directory), of which the first line tells. What
# cargo built stays between runs, for no file of a clone is newer than its commit.
set -uo pipefail
cd "$(dirname "$0")/.."
runs=${RUNS:-10} busy=${BUSY:-4}
work=${AGAIN_DIR:-$(mktemp -d)}
mkdir -p "$work"
commit=$(git rev-parse HEAD)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$work/target} CI=1
echo "$runs runs of $commit; what they print is in $work"

loops=()
rest() {
  if [ "${#loops[@]}" -gt 0 ]; then
    kill "${loops[@]}" 2>/dev/null
    wait "${loops[@]}" 2>/dev/null
  fi
  loops=()
}
trap rest EXIT

failed=0
for run in $(seq "$runs"); do
  rm -rf "$work/clone"
  git clone --quiet . "$work/clone" && git -C "$work/clone" checkout --quiet "$commit" || exit 1
  git -C "$work/clone" ls-files -z | (cd "$work/clone" && xargs -0 touch --no-create --date="@$(git log -1 --format=%ct)")
  form="as it is"
  unset RUST_TEST_THREADS PINFOLD_SHUFFLE PINFOLD_ALL_RIGHTS
  case $run in
    2) form="one test at a time"; export RUST_TEST_THREADS=1 ;;
    4) form="in an order of chance"; export PINFOLD_SHUFFLE=1 ;;
    5 | 6) form="under all rights"; export PINFOLD_ALL_RIGHTS=1 ;;
  esac
  if [ $((run % 2)) = 1 ]; then
    form+=", beside $busy busy processes"
    for _ in $(seq "$busy"); do
      sh -c 'while :; do :; done' &
      loops+=($!)
    done
  fi
  start=$SECONDS
  if "$work/clone/.ci/run" >"$work/run-$run" 2>&1; then said=passed; else said=FAILED failed=$((failed + 1)); fi
  rest
  echo "run $run, $form: $said in $((SECONDS - start)) s"
  if [ $said = FAILED ]; then
    grep -E '^test .* FAILED|^error|^== failed|: FAILED after' "$work/run-$run" | sort -u | head -20
  fi
done
echo "$((runs - failed)) of $runs passed"
[ "$failed" = 0 ]
