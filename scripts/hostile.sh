#!/usr/bin/env bash
# Plays users without rights that mean harm, against a daemon of root's: each program of scripts/hostile attacks in
# its own way and says what it saw. Exits with 1 if any did harm. Needs root (to be two users) and Python 3.
# Usage: hostile.sh [DIRECTORY OF pinfold AND pinfoldd] [PROGRAM...]
set -uo pipefail
given=$(realpath "${1:-$(dirname "$0")/../target/debug}")
shift || true
cd "$(dirname "$0")/hostile"
if [ "$(id -u)" != 0 ] || ! command -v python3 >/dev/null; then
  echo "hostile: SKIPPED, as only root can be two users, and the programs are Python's" >&2
  exit 0
fi
# An unprivileged user must be able to read the programs, wherever they were built.
PINFOLD_BIN=$(mktemp -d)
export PINFOLD_BIN PYTHONDONTWRITEBYTECODE=1
trap 'rm -rf "$PINFOLD_BIN"' EXIT
chmod 755 "$PINFOLD_BIN"
cp "$given/pinfold" "$given/pinfoldd" "$PINFOLD_BIN" || exit 2
harmful=()
programs=("$@")
if [ "${#programs[@]}" = 0 ]; then
  mapfile -t programs < <(ls ./*.py | grep -v '^./lib.py$' | sed 's|^./||; s|\.py$||')
fi
for program in "${programs[@]}"; do
  echo "== $program: $(sed -n '1s/"//gp' "$program.py")"
  # In a group of its own, so that Ctrl-C ends the program first.
  timeout --kill-after=30 300 python3 "$program.py" || harmful+=("$program")
done
if [ "${#harmful[@]}" -gt 0 ]; then
  echo "hostile: HARM by ${harmful[*]}"
  exit 1
fi
echo "hostile: ${#programs[@]} programs did no harm"
