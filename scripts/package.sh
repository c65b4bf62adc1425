#!/usr/bin/env bash
# Makes a Debian package of built programs: package.sh PROGRAMS OUT [REVISION], the directory with the programs, the one
# that the package is written into, and what comes behind the version. Says the package's name. No rights are needed.
set -euo pipefail
programs=$(realpath "$1") out=$(realpath -m "$2")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
version=$("$programs/pinfold" --version | cut -d ' ' -f 2)${3-}
architecture=$(dpkg --print-architecture)

scripts/layout.sh "$programs" "$root"
documents=$root/usr/share/doc/pinfold
gzip -9 -n -c CHANGELOG.md >"$documents/changelog.gz"
cat LICENSE-MIT >"$documents/copyright"

install -d "$root/DEBIAN"
echo /etc/pinfold/pinfold.toml >"$root/DEBIAN/conffiles"
# The C library is linked; the newest that its symbols ask for.
libc=$(objdump -T "$root"/usr/bin/* 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | cut -d _ -f 2 | sort -V | tail -n 1 || true)
cat >"$root/DEBIAN/control" <<C
Package: pinfold
Version: $version
Architecture: $architecture
Maintainer: The pinfold maintainers <maintainers@pinfold.invalid>
Section: admin
Priority: optional
Depends: libc6 (>= ${libc:-2.36}), libgcc-s1
Installed-Size: $(du -sk "$root" | cut -f 1)
Description: multicore resource manager for batch hosts
 Makes one machine finish more work, predictably: decides from live
 measurements which job runs now, on which cores, how far its memory may
 grow, and which is frozen and paged out when memory runs short; records
 what each job really used, and explains every decision.
C
cat >"$root/DEBIAN/postinst" <<'S'
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  if [ -z "$2" ]; then
    systemctl enable --now pinfoldd.service || echo "pinfoldd could not be started: systemctl status pinfoldd" >&2
  else
    # Jobs run on while the daemon is replaced.
    systemctl try-restart pinfoldd.service || true
  fi
fi
S
cat >"$root/DEBIAN/prerm" <<'S'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now pinfoldd.service || true
fi
# Nobody's job stays frozen or bounded by a program that is gone.
if [ "$1" = remove ]; then
  pinfold rescue >/dev/null || true
fi
S
cat >"$root/DEBIAN/postrm" <<'S'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
if [ "$1" = purge ]; then
  rm -rf /var/lib/pinfold /etc/pinfold
  # Directories in memory of jobs that still run lie below it, and stay.
  rmdir /run/pinfold/tmp /run/pinfold 2>/dev/null || true
fi
S
chmod 755 "$root"/DEBIAN/post* "$root"/DEBIAN/prerm
mkdir -p "$out"
package=$out/pinfold_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "$package"
