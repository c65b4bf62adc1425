#!/usr/bin/env bash
# Whether the programs in the directory $1 are linked statically, and run a job where there is nothing beside them.
set -euo pipefail
programs=$(realpath "$1")
must() { "$@" || { echo "FAILED: $*" >&2; exit 1; }; }
for program in pinfold pinfoldd pinfold-slurm; do
  # Exit status 1, or `statically linked`: there is no library to be found.
  ! ldd "$programs/$program" 2>/dev/null | grep '=>' || { echo "FAILED: $program needs libraries" >&2; exit 1; }
done
# An assignment, whose failure ends this.
version=$("$programs/pinfold" --version)
version=${version#pinfold }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install -D -m 755 -t "$work/root/bin" "$programs/pinfold" "$programs/pinfoldd"
mkdir -p "$work/root"/{tmp,etc}
echo 'root:x:0:0:root:/root:/bin/sh' >"$work/root/etc/passwd"
if [ "$(id -u)" = 0 ]; then
  for program in pinfold pinfoldd; do
    must test "$(chroot "$work/root" "/bin/$program" --version)" = "$program $version"
  done
fi
scripts=$(dirname "$0")
"$scripts/try-programs.sh" "$programs"
echo "dist: the programs need no library, and a job ran"
