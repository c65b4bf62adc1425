#!/usr/bin/env bash
# Real workload managers beside a private daemon: each is started on loopback in a directory of its own, pinfold's hooks are
# installed, jobs go through, are cancelled while they wait, run and are frozen, and everything is stopped by its number.
# Nothing below /etc is touched. `scripts/setup.sh --wlm` installs Debian's packages of what is missing.
# Usage: wlm.sh [--quick] [slurm] [gridengine]; PINFOLD_BIN names the directory of pinfold and pinfoldd (target/debug). The
# quick form leaves out accounting, options, arrays, daemons that are away and the slower faults. PATIENCE=SECONDS is how long a
# thing may take.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=$(realpath -m "${PINFOLD_BIN:-${CARGO_TARGET_DIR:-target}/debug}")
quick=0
[ "${1:-}" != --quick ] || { quick=1; shift; }
managers=("$@")
[ "${#managers[@]}" -gt 0 ] || managers=(slurm gridengine)
failures=0 passed=0 skipped=()
unset "${!SLURM_@}" "${!SGE_@}" "${!PINFOLD_@}"
. scripts/wlm/managers.sh
. scripts/wlm/accounts.sh
. scripts/wlm/slurm.sh
. scripts/wlm/faults.sh
. scripts/wlm/gridengine.sh
. scripts/wlm/gridengine-faults.sh
. scripts/wlm/both.sh
. scripts/wlm/advice.sh

[ -x "$bin/pinfold" ] && [ -x "$bin/pinfoldd" ] || { say "no programs in $bin: cargo build --workspace --bins"; exit 2; }
# These are PUs of the daemon and of the managers' node.
[ "$(taskset -c 0-1 nproc 2>/dev/null || echo 0)" = 2 ] || { say "SKIPPED, as processors 0 and 1 are needed"; exit 0; }
PATIENCE=${PATIENCE:-180}
# Slurm's groups, where it has some, are found by the node's name, and others may run this script at the same time.
NODE_NAME=pinfold$$
# A job that has more memory than it asked for is ended by Slurm, and the least that one gets is enough for all but those.
SLURM_MEM_PER_CPU=200 SLURM_LINES=JobAcctGatherParams=OverMemoryKill
work=$(mktemp -d /var/tmp/pinfold-wlm-XXXXXX)
chmod 755 "$work"
work_script >"$work/work.sh"
chmod 755 "$work/work.sh"
# What is built beside this changes the programs where they were built.
mkdir -m 755 "$work/bin"
cp "$bin/pinfold" "$bin/pinfoldd" "$work/bin" || { rm -rf "$work"; exit 2; }
chmod 755 "$work/bin/pinfold" "$work/bin/pinfoldd"
bin=$work/bin
export PINFOLD_SOCKET=$work/pinfold.sock
pinfold=$bin/pinfold

# holds WORDS COMMAND...: what must hold.
holds() {
  local what=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    failures=$((failures + 1))
    say "FAILED: $what"
    as_it_is
  fi
}

# What pinfold and the managers have, for the reader of a failure.
as_it_is() {
  "$pinfold" --no-autostart status --columns job,state,external,cpus,reason 2>&1 | sed 's/^/    /'
  [ -z "${SLURM_CONF:-}" ] || squeue 2>&1 | sed 's/^/    /'
  [ -z "${SGE_ROOT:-}" ] || qstat -u '*' 2>&1 | sed 's/^/    /'
}

# What computes beside this takes no slots, whoever runs it.
daemon=0
daemon_up() {
  background "$work/pinfoldd.log" "$bin/pinfoldd" --socket "$PINFOLD_SOCKET" --state-dir "$work/state" \
    --set slots.factor=1 --set "host.cpus=0-1" --set host.other_load=off
  daemon=${started[0]}
  until_true "$pinfold" --no-autostart status
}

# detected WORDS: pinfold finds it here. The managers' programs have a few seconds to answer, which on a busy host may not do.
detected() { tells "$("$pinfold" wlm detect)" "$1"; }

# The daemon's control groups: it removes them when it ends.
groups_left() {
  local instance
  instance=$(cat "$work/state/instance" 2>/dev/null)
  [ -n "$instance" ] && find /sys/fs/cgroup -maxdepth 3 -type d -path "*/pinfold/$instance" 2>/dev/null | grep .
}

# Managers and the daemon are gone, with all that they started.
all_down() {
  trap - EXIT
  holds "nothing is left of processes" managers_down "$work"
  holds "nothing is left of control groups" sh -c "! echo '$(groups_left)' | grep ."
  [ "$failures" -gt 0 ] && [ -n "${KEEP:-}" ] && { say "kept $work"; return; }
  rm -rf "$work"
}
trap 'managers_down "$work"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# What pinfold tells of the job with that name: one key of its JSON.
of() { "$pinfold" --no-autostart status --columns "$2" "$1" 2>/dev/null | tail -n +2 | tr -d ' '; }
is() { [ "$(of "$1" state)" = "$2" ]; }
count() { [ "$("$pinfold" --no-autostart status --state "$1" --columns job | tail -n +2 | wc -l)" = "$2" ]; }
first() { "$pinfold" --no-autostart status --state "$1" --sort job --columns external | sed -n 2p | tr -d ' '; }
stopped() { [ "$(cut -d ' ' -f 3 "/proc/$1/stat" 2>/dev/null)" = T ]; }
pid_of() { of "$1" pids | cut -d , -f 1; }
tells() { grep -q -- "$2" <<<"$1"; }
same() { [ "$1" = "$2" ] || { say "  $1 is not $2"; return 1; }; }
fails() { ! "$@"; }
gone() { [ ! -d "/proc/$1" ]; }

# frozen_and_back NAME: pinfold suspends and resumes it by the manager's name.
frozen_and_back() {
  local name=$1 pid
  pid=$(pid_of "$name")
  holds "$name is suspended by its name" "$pinfold" suspend "$name"
  holds "$name is frozen" until_true is "$name" frozen
  holds "its processes are stopped" until_true stopped "$pid"
  holds "$name is resumed" "$pinfold" resume "$name"
  holds "$name runs again" until_true is "$name" running
}

# there PROGRAM...: all of them are.
there() { command -v "$@" >/dev/null && [ "$(command -v "$@" | wc -l)" = $# ]; }

daemon_up || { say "pinfoldd does not start: $(tail -n 3 "$work/pinfoldd.log")"; exit 1; }
for manager in "${managers[@]}"; do
  begun=$SECONDS
  case $manager in
  slurm)
    if there slurmctld slurmd munged cc && [ -e /usr/include/slurm/spank.h ]; then
      slurm
    else
      skipped+=("Slurm (apt: slurm-wlm slurm-wlm-basic-plugins libslurm-dev munge gcc libc6-dev)")
    fi
    ;;
  gridengine)
    if [ "$(id -u)" != 0 ]; then
      skipped+=("Grid Engine, which only root can run")
    elif [ -x /usr/lib/gridengine/sge_qmaster ] && [ -x /usr/lib/gridengine/sge_execd ]; then
      gridengine
    else
      skipped+=("Grid Engine (apt: gridengine-master gridengine-exec gridengine-client)")
    fi
    ;;
  *)
    say "no such manager: $manager; slurm, gridengine"
    exit 2
    ;;
  esac
  say "$manager took $((SECONDS - begun)) s"
done
[ -z "${SLURM_CONF:-}" ] || [ -z "${SGE_ROOT:-}" ] || two_managers
all_down
for one in ${skipped[@]+"${skipped[@]}"}; do say "SKIPPED: $one"; done
say "$passed held, $failures failed"
[ "$failures" = 0 ]
