#!/usr/bin/env bash
# Makes the Debian package of the programs in the directory $1, and installs, upgrades, removes and purges it below a
# directory of its own. What systemd makes of its unit is not seen here.
set -euo pipefail
programs=$1
cd "$(dirname "$0")/.."
for needed in dpkg dpkg-deb busybox ldd; do
  command -v $needed >/dev/null || { echo "package: SKIPPED, as $needed is not installed"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "package: SKIPPED, as only root can install one"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
package=$(scripts/package.sh "$programs" "$work/out")
echo "$(basename "$package"): $(($(stat -c %s "$package") / 1024)) KiB"

# A system with no more than the package's scripts and programs need.
root=$work/root
mkdir -p "$root"/{bin,usr/bin,proc,tmp,var/lib/dpkg/{info,updates,triggers}}
: >"$root/var/lib/dpkg/status"
install -m 755 "$(command -v busybox)" "$root/bin/busybox"
for name in sh rm; do ln -s busybox "$root/bin/$name"; done
ldd "$programs/pinfold" "$programs/pinfoldd" "$programs/pinfold-slurm" "$programs/pinfold-hub-client" | grep -o '/[^ ]*' | grep -v ':$' | sort -u | while read -r library; do
  install -D "$library" "$root$library"
done

must() { "$@" || { echo "FAILED: $*" >&2; exit 1; }; }
install_it() { DEBIAN_FRONTEND=noninteractive dpkg --root="$root" --force-depends --force-confold --log=/dev/null --install "$package" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }; }
run_dpkg() { dpkg --root="$root" --force-depends --log=/dev/null "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }; }

install_it
must chroot "$root" /usr/bin/pinfold --version
must chroot "$root" /usr/bin/pinfoldd --version
must chroot "$root" /usr/bin/pinfold-slurm sbatch --version
must test -x "$root/usr/bin/pinfold-hub-client"
for page in man1/pinfold.1 man1/pinfold-run.1 man5/pinfold.toml.5 man8/pinfoldd.8; do
  must test -s "$root/usr/share/man/$page.gz"
done
must chroot "$root" /usr/bin/pinfold config check /etc/pinfold/pinfold.toml
# Every key that the file shows is one, with a value that is right.
sed 's/^# \(\[.*\|[a-z_]* = .*\)$/\1/' "$root/etc/pinfold/pinfold.toml" >"$root/tmp/shown.toml"
must grep -q '^factor' "$root/tmp/shown.toml"
must chroot "$root" /usr/bin/pinfold config check /tmp/shown.toml
# The module's file names the socket that the service listens on.
module=$root/usr/share/modules/modulefiles/pinfold
must test "$(head -c 10 "$module")" = '#%Module1.' -a "$(sed -n 's/^setenv PINFOLD_SOCKET //p' "$module")" = /run/pinfold/pinfold.sock
if tclsh=$(command -v tclsh); then
  must test "$(printf 'proc module-whatis {text} {}\nproc setenv {name value} {puts $name=$value}\nsource %s\n' "$module" | "$tclsh")" = PINFOLD_SOCKET=/run/pinfold/pinfold.sock
fi
echo '# changed by the administrator' >>"$root/etc/pinfold/pinfold.toml"
mkdir -p "$root/var/lib/pinfold"
install_it
must grep -q 'changed by the administrator' "$root/etc/pinfold/pinfold.toml"
run_dpkg --remove pinfold
must test ! -e "$root/usr/bin/pinfold" -a -e "$root/etc/pinfold/pinfold.toml" -a -d "$root/var/lib/pinfold"
install_it
run_dpkg --purge pinfold
must test ! -e "$root/usr/bin/pinfoldd" -a ! -e "$root/etc/pinfold" -a ! -e "$root/var/lib/pinfold"
echo "package: installed, upgraded with its configuration kept, removed and purged"
scripts/test-package-wlm.sh "$programs"
