# Memory pressure beside an engine: one job after the other of a higher priority that holds more than the host has left, until
# it is ended: pressure.sh MIB. Its jobs are named `pressure`.
set -uo pipefail
end() { trap - TERM; kill "$child" 2>/dev/null; exit 0; }
trap end TERM
while :; do
  # Random bytes: a page of zeros would not be held.
  "$PINFOLD" run --name pressure --priority 16 --mem "${1}MiB" -- \
    python3 -c 'import os, sys, time; held = [os.urandom(1 << 20) for _ in range(int(sys.argv[1]))]; time.sleep(3)' "$1" &
  child=$!
  wait "$child"
  sleep 2 &
  child=$!
  wait "$child"
done
