#!/usr/bin/env bash
# Random overload of memory while the daemon is killed at random: nothing may be lost, nothing may stay frozen.
# Usage: soak.sh [MINUTES [SEED]]; binaries from $BINARIES (target/release). As root it makes a swap file for the time.
# Ends with 0 only if every job ended with its own right output and nothing is left.
set -euo pipefail

minutes=${1:-30}
seed=${2:-$(date +%s)}
binaries=$(realpath "${BINARIES:-target/release}")
budget_mib=${BUDGET_MIB:-1024}
RANDOM=$((seed % 32768))
scratch=$(mktemp -d -t pinfold-soak-XXXXXX)
export PINFOLD_SOCKET=$scratch/socket
daemon=
echo "seed $seed, $minutes minutes, budget $budget_mib MiB, in $scratch"

clean_up() {
  if [ -n "$daemon" ]; then
    kill "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
  fi
  if [ -f "$scratch/swap" ]; then swapoff "$scratch/swap" || true; fi
  rm -rf "$scratch"
}
trap clean_up EXIT

if [ "$(id -u)" = 0 ] && [ "$(wc -l </proc/swaps)" = 1 ]; then
  fallocate -l 4G "$scratch/swap" && chmod 600 "$scratch/swap"
  mkswap -q "$scratch/swap" && swapon "$scratch/swap" || rm -f "$scratch/swap"
fi

start_daemon() {
  PINFOLD_LOG=debug "$binaries/pinfoldd" --socket "$PINFOLD_SOCKET" --state-dir "$scratch/state" \
    --set "host.memory=${budget_mib}MiB" --set slots.factor=3 2>>"$scratch/log" &
  daemon=$!
  local tries=0
  until "$binaries/pinfold" --no-autostart status >/dev/null 2>&1; do
    sleep 0.1
    tries=$((tries + 1))
    if [ "$tries" -gt 200 ]; then
      echo "the daemon does not come up:"
      tail -5 "$scratch/log"
      exit 1
    fi
  done
}

# Asks until a daemon is there to answer.
ask() {
  local tries=0
  until "$binaries/pinfold" --no-autostart "$@" 2>>"$scratch/asked"; do
    tries=$((tries + 1))
    [ "$tries" -lt 50 ] || return 1
    sleep 0.1
  done
}

load() { # MIB TURNS
  echo "'$binaries/pinfold-load' --grow-mib $1 --grow-mib-per-s 400 --bursts 1 --turns $2"
}

# What each size gives when it has the machine to itself.
sizes=(50 150 300 450 600)
turns=2000000
for mib in "${sizes[@]}"; do
  sh -c "$(load "$mib" "$turns")" >"$scratch/right-$mib"
done

mkdir "$scratch/out"
start_daemon
end=$((SECONDS + minutes * 60))
kills=0
jobs=0
open=()
next_kill=$((SECONDS + 5 + RANDOM % 30))
while [ "$SECONDS" -lt "$end" ]; do
  if [ "$SECONDS" -ge "$next_kill" ]; then
    kill -9 "$daemon" && wait "$daemon" 2>/dev/null || true
    kills=$((kills + 1))
    sleep "0.$((RANDOM % 10))"
    start_daemon
    next_kill=$((SECONDS + 5 + RANDOM % 30))
  fi
  waiting=$(ask status | grep -cE ' (queued|held) ' || true)
  if [ "$waiting" -lt 6 ]; then
    mib=${sizes[RANDOM % ${#sizes[@]}]}
    number=$(ask submit --name "grow-$mib" -o "$scratch/out/$jobs-$mib" -e /dev/null -- sh -c "$(load "$mib" "$turns")") || {
      echo "a job could not be handed over"
      tail -3 "$scratch/asked"
      exit 1
    }
    open+=("$number")
    jobs=$((jobs + 1))
  fi
  # Now and then a user suspends a job, and lets it go on a moment later.
  if [ $((RANDOM % 10)) = 0 ] && [ "${#open[@]}" -gt 0 ]; then
    victim=${open[RANDOM % ${#open[@]}]}
    "$binaries/pinfold" --no-autostart suspend "$victim" 2>/dev/null || true
    sleep 0.2
    ask resume "$victim" >/dev/null 2>&1 || true
  fi
  sleep 0.1
done
echo "$jobs jobs handed over, the daemon killed $kills times; waiting for the rest"

deadline=$((SECONDS + 900))
while ask status | grep -qE ' (queued|held|running|frozen|parked) '; do
  # A resume that met a dead daemon is made good for here.
  for number in "${open[@]}"; do
    "$binaries/pinfold" --no-autostart resume "$number" 2>/dev/null || true
  done
  if [ "$SECONDS" -gt "$deadline" ]; then
    echo "jobs are left after 15 minutes:"
    ask status
    exit 1
  fi
  sleep 1
done

wrong=0
for file in "$scratch"/out/*; do
  mib=${file##*-}
  if ! cmp -s "$file" "$scratch/right-$mib"; then
    echo "wrong or lost: ${file##*/}"
    wrong=$((wrong + 1))
  fi
done
written=$(find "$scratch/out" -type f | wc -l)
instance=$(cat "$scratch/state/instance")
kill "$daemon" && wait "$daemon" 2>/dev/null || true
daemon=
left=$(find /sys/fs/cgroup -maxdepth 4 -path "*/pinfold/$instance/job-*" -type d 2>/dev/null | wc -l)
freezes=$(grep -c 'action=freeze reason=memory' "$scratch/log" || true)
paged=$(grep -c 'action=page out' "$scratch/log" || true)
echo "$jobs jobs, $written outputs, $wrong wrong or lost, $left groups left, the daemon killed $kills times;" \
  "jobs frozen for memory $freezes times, paged out $paged times; seed $seed"
[ "$wrong" = 0 ] && [ "$left" = 0 ] && [ "$written" = "$jobs" ]
