#!/usr/bin/env bash
# Makes the RPM of the programs in the directory $1, unpacks it, and looks at what it holds and whether that runs. As root
# it is entered into a database of packages below a directory of its own, and removed from there; its scripts are read, not
# run.
set -euo pipefail
programs=$1
cd "$(dirname "$0")/.."
for needed in rpmbuild rpm2cpio cpio rpm; do
  command -v $needed >/dev/null || { echo "rpm: SKIPPED, as $needed is not installed"; exit 0; }
done
export PINFOLD_PACK_FAST=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
must() { "$@" || { echo "FAILED: $*" >&2; exit 1; }; }
package=$(scripts/rpm.sh "$programs" "$work/out")
echo "$(basename "$package"): $(($(stat -c %s "$package") / 1024)) KiB"

must test "$(rpm -qp --queryformat '%{NAME} %{VERSION}' "$package")" = "$("$programs/pinfold" --version)"
must test "$(rpm -qp --configfiles "$package")" = /etc/pinfold/pinfold.toml
# The C library that the programs are linked with is asked for.
rpm -qp --requires "$package" >"$work/requires"
must grep -q '^libc.so.6' "$work/requires"
rpm -qp --scripts "$package" >"$work/scripts"
must grep -q 'pinfold rescue' "$work/scripts"

mkdir "$work/root"
(cd "$work/root" && rpm2cpio "$package" | cpio --extract --make-directories --quiet)
must "$work/root/usr/bin/pinfold" --version
must "$work/root/usr/bin/pinfoldd" --version
must "$work/root/usr/bin/pinfold" config check "$work/root/etc/pinfold/pinfold.toml"
must test -s "$work/root/usr/lib/systemd/system/pinfold-jobs.service" -a -s "$work/root/usr/lib/systemd/system/pinfoldd.service" -a -s "$work/root/usr/share/man/man1/pinfold.1.gz"
must test -s "$work/root/usr/share/man/man5/pinfold.toml.5.gz" -a -s "$work/root/usr/share/man/man8/pinfoldd.8.gz"

if [ "$(id -u)" = 0 ]; then
  mkdir -p "$work/host"
  rpm --root "$work/host" --initdb
  must rpm --root "$work/host" --install --nodeps --noscripts --ignorearch "$package"
  must test -x "$work/host/usr/bin/pinfoldd"
  echo '# changed by the administrator' >>"$work/host/etc/pinfold/pinfold.toml"
  must rpm --root "$work/host" --upgrade --force --nodeps --noscripts --ignorearch "$package"
  must grep -q 'changed by the administrator' "$work/host/etc/pinfold/pinfold.toml"
  must rpm --root "$work/host" --erase --noscripts pinfold
  must test ! -e "$work/host/usr/bin/pinfoldd"
  echo "rpm: unpacked and run; installed, upgraded with its configuration kept, and removed"
else
  echo "rpm: unpacked and run; not installed, as only root can"
fi
