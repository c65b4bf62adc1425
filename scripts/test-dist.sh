#!/usr/bin/env bash
# Whether the programs in the directory $1 are linked statically, and run a job where there is nothing beside them.
set -euo pipefail
programs=$(realpath "$1")
must() { "$@" || { echo "FAILED: $*" >&2; exit 1; }; }
for program in pinfold pinfoldd; do
  # Exit status 1, or `statically linked`: there is no library to be found.
  ! ldd "$programs/$program" 2>/dev/null | grep '=>' || { echo "FAILED: $program needs libraries" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install -D -m 755 -t "$work/root/bin" "$programs/pinfold" "$programs/pinfoldd"
mkdir -p "$work/root"/{tmp,etc}
echo 'root:x:0:0:root:/root:/bin/sh' >"$work/root/etc/passwd"
if [ "$(id -u)" = 0 ]; then
  for program in pinfold pinfoldd; do
    must test "$(chroot "$work/root" "/bin/$program" --version | cut -d ' ' -f 2)" = "$("$programs/pinfold" --version | cut -d ' ' -f 2)"
  done
fi
# A private daemon and a job, by these programs and no others.
export PINFOLD_SOCKET=$work/socket PINFOLD_STATE_DIR=$work/state PATH=$programs:$PATH
must test "$("$programs/pinfold" run -- echo hello)" = hello
must test "$("$programs/pinfold" report --last 1 --json | grep -o '"exit_code":0')" = '"exit_code":0'
must test "$("$programs/pinfold" status --all --json | grep -o '"user":"[^"]*"' | sort -u)" = "\"user\":\"$(id -un)\""
echo "dist: the programs need no library, and a job ran"
