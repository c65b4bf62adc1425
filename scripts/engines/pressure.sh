# Memory pressure beside an engine, until it is ended: pressure.sh MIB. Again and again two jobs of a higher priority, which
# take both cores, hold so much each; together they leave nothing to others. Between two rounds there is time for the
# engine's jobs: those are to be frozen often, and yet to end. The jobs are named `pressure`.
set -uo pipefail
children=()
end() { trap - TERM; kill "${children[@]}" 2>/dev/null; exit 0; }
trap end TERM
press() {
  # Random bytes: a page of zeros would not be held.
  exec "$PINFOLD" run --name pressure --priority 16 --mem "${1}MiB" -- \
    python3 -c 'import os, sys, time; held = [os.urandom(1 << 20) for _ in range(int(sys.argv[1]))]; time.sleep(3)' "$1"
}
while :; do
  press "$1" & children=("$!")
  press "$1" & children+=("$!")
  wait "${children[@]}"
  sleep 4 & children=("$!")
  wait "${children[@]}"
done
