#!/usr/bin/env bash
# Makes an archive with programs that are linked statically, and tries them: dist.sh OUT. They need no library of the host,
# so they run on any distribution. Names of users are found in /etc/passwd and /etc/group; other sources of names (LDAP,
# SSSD) take the host's own C library. Says the archive's name.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-target}")
target=${CARGO_TARGET_DIR:-target}
triple=$(rustc --version --verbose | sed -n 's/^host: //p')
case "$triple" in *-linux-gnu) ;; *) echo "dist: $triple is no Linux with the GNU C library" >&2; exit 1 ;; esac

# With a target that is named, build scripts and macros are not linked in this way, which they cannot be.
RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" \
  cargo build --release --locked --target "$triple" --package pinfold-cli --package pinfold-daemon \
  --package pinfold-slurm --package pinfold-hubclient >&2
programs=$target/$triple/release
scripts/test-dist.sh "$programs" >&2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$("$programs/pinfold" --version | cut -d ' ' -f 2)
name=pinfold-$version-${triple%%-*}-linux
scripts/layout.sh "$programs" "$work/root"
# One directory that may lie anywhere.
mkdir -p "$work/$name/share"
mv "$work/root/usr/bin" "$work/$name/bin"
mv "$work/root/usr/share"/* "$work/$name/share/"
mv "$work/root/etc" "$work/$name/etc"
mv "$work/root/lib" "$work/$name/lib"
mkdir -p "$out"
tar -C "$work" --owner=0 --group=0 --sort=name -czf "$out/$name.tar.gz" "$name"
(cd "$out" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "$out/$name.tar.gz"
