#!/usr/bin/env bash
# Runs a job by the programs in the directory $1, with a private daemon that is theirs, and asks about it.
set -euo pipefail
programs=$(realpath "$1")
must() { "$@" || { echo "FAILED: $*" >&2; exit 1; }; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The client starts the daemon that lies in the search path.
export PINFOLD_SOCKET=$work/socket PINFOLD_STATE_DIR=$work/state PATH=$programs:$PATH
must test "$("$programs/pinfold" run -- echo hello)" = hello
# The command returns before a slow disk has its job's end; this does not.
must "$programs/pinfold" wait 1
must test "$("$programs/pinfold" report --last 1 --json | grep -o '"exit_code":0')" = '"exit_code":0'
must test "$("$programs/pinfold" status --all --json | grep -o '"user":"[^"]*"' | sort -u)" = "\"user\":\"$(id -un)\""
# It would end by itself in a minute, and needs its directory until then.
daemon=$(head -c 20 "$work/state/lock" || true)
is_ours() { [ -n "$daemon" ] && [ "$(readlink "/proc/$daemon/exe" 2>/dev/null)" = "$programs/pinfoldd" ]; }
if is_ours; then kill "$daemon"; fi
# Until it has ended it writes into the directory that is to be removed.
while is_ours; do sleep 0.1; done
