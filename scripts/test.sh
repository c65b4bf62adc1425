#!/usr/bin/env bash
# The whole suite, as `make test` and CI run it: format, lints, simulated episodes, the parts that depend on rights
# once more as an unprivileged user, and at the end `cargo test` with all unit and integration tests.
# Every step runs even when one before it failed, unless nothing could be built; the exit status is that of the worst.
set -uo pipefail
cd "$(dirname "$0")/.."

# What nohup or a shell's background has ignored, all that the tests start would ignore as well.
if [ "${1:-}" != "with usual signals" ] && env --default-signal=HUP true 2>/dev/null; then
  exec env --default-signal=HUP --default-signal=INT --default-signal=QUIT scripts/test.sh "with usual signals"
fi

failed=()

# Random cases are the same ones in each run of the suite, so that what fails here fails again. `cargo test` by itself
# draws others each time.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-2011}
echo "== random cases: seed $PROPTEST_RNG_SEED (PROPTEST_RNG_SEED)"

# Runs a step under a heading and remembers whether it failed.
step() {
  local name=$1 start=$SECONDS
  shift
  echo "== $name"
  if "$@"; then
    echo "== $name: passed in $((SECONDS - start)) s"
  else
    echo "== $name: FAILED after $((SECONDS - start)) s"
    failed+=("$name")
  fi
}

# Waits for what was started beside the other steps, and shows what it said.
joined() {
  local status=0
  wait "$1" || status=$?
  cat "$2"
  return "$status"
}

# Most tests wait for processes most of the time.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((3 * $(nproc) + 1))}

step "format" cargo fmt --all --check
# All at once, and first: of a few packages by themselves cargo would build everything below them anew, as they ask for
# other features of it. Tests run the programs of other crates too, which a test build alone does not make.
target=${CARGO_TARGET_DIR:-target}
step "build" cargo build --quiet --workspace --all-targets
case " ${failed[*]-} " in *" build "*) exit 1 ;; esac
xtask=$target/debug/xtask

# The real programs on a kernel with control groups v2 alone, NUMA nodes and threads that share cores. The emulator takes one
# core, so it goes on beside the other steps.
work=$(mktemp -d)
"$xtask" lab >"$work/lab" 2>&1 &
lab=$!
wlm=
trap 'kill "$lab" $wlm 2>/dev/null; rm -rf "$work"' EXIT

step "lints" cargo clippy --workspace --all-targets -- -D warnings
step "tidy" "$xtask" tidy
step "documentation: every link leads somewhere, reference as the code says" "$xtask" book
if cargo deny --version >/dev/null 2>&1; then
  step "licences and bans" cargo deny check licenses bans sources
else
  echo "== licences and bans: SKIPPED, as cargo-deny is not installed (cargo install cargo-deny)"
fi
step "simulated episodes, with and without memory pressure: no promise broken, decisions as kept" "$xtask" gate
step "twisted words" "$xtask" fuzz --inputs 20000 --seed 1

if [ "$(id -u)" = 0 ]; then
  step "unprivileged" scripts/test-unprivileged.sh
else
  echo "== unprivileged: everything below runs as $(id -un) anyhow"
fi

# The tests ask it what it makes of the same machines.
if ! command -v lstopo-no-graphics lstopo >/dev/null; then
  echo "== hwloc's second opinion: SKIPPED, as lstopo is not installed (apt: hwloc-nox)"
fi

# Mostly waits for the managers' own periods, beside what packs and installs.
scripts/wlm.sh --quick >"$work/wlm" 2>&1 &
wlm=$!
step "package" scripts/test-package.sh "$target/debug"
step "package for other families (RPM)" scripts/test-rpm.sh "$target/debug"
step "installation from source" scripts/test-install.sh
step "dashboard" scripts/test-grafana.sh
step "python package" scripts/python-test.sh "$target/debug" --quick
step "real workload managers, the quick form, beside the steps before" joined "$wlm" "$work/wlm"
step "emulated host, beside the steps before" joined "$lab" "$work/lab"
# As it was built first: the installation from source has left programs there without optimisation.
step "programs for the tests" cargo build --quiet --workspace --all-targets

start=$SECONDS
echo "== tests"
# Last, so that what remains on the screen is the test runner's own summary.
# By its own path, for the program that it links to knows nothing of what is installed beside it.
python=$(realpath -m "${CARGO_TARGET_DIR:-target}")/python/bin/python
if [ -x "$python" ]; then
  export PINFOLD_PYTHON=$python
fi
# To find out that no documentation has code, rustdoc would read all crates.
if grep -rqE '^ *//[/!] +```' --include='*.rs' crates tools; then
  cargo test --workspace --no-fail-fast --doc || failed+=("code in documentation")
fi
# Unit tests that need root or an optional program are ignored by `cargo test`. Here they run where the host has that.
options=(--include-ignored)
without() {
  echo "== $1: not run, as $2"
  options+=(--skip "$1")
}
[ "$(id -u)" = 0 ] || without as_root "only root can run these tests"
[ "$(nproc)" -gt 1 ] || without threads_go_and_come_back "the host has one PU"
python3 -c 'import os; os.unshare(os.CLONE_NEWUSER)' 2>/dev/null ||
  without as_root_a_user_of_a_user_namespace_is_none "there are no user namespaces, or Python is older than 3.12"
if [ -n "${PINFOLD_SHUFFLE:-}" ]; then
  # Test programs of a stable compiler heed this only when they are told that they may.
  runner=CARGO_TARGET_$(rustc --print host-tuple | tr 'a-z-' 'A-Z_')_RUNNER
  export "$runner=env RUSTC_BOOTSTRAP=1"
  options+=(-Z unstable-options --shuffle)
fi
cargo test --workspace --no-fail-fast --lib --bins --tests -- "${options[@]}" || failed+=("tests")
if [ "${#failed[@]}" -gt 0 ]; then
  echo "== failed: $(printf '%s; ' "${failed[@]}")tests took $((SECONDS - start)) s"
  exit 1
fi
