#!/usr/bin/env bash
# Makes the Debian packages of the programs in the directory $1, and installs, upgrades, removes and purges them below a
# directory of its own; the hub of its package serves there. systemctl is a stand-in there, which notes what it is told.
set -euo pipefail
programs=$1
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/sbin
for needed in dpkg dpkg-deb busybox ldd useradd groupadd deb-systemd-helper; do
  command -v $needed >/dev/null || { echo "package: SKIPPED, as $needed is not installed"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "package: SKIPPED, as only root can install one"; exit 0; }
export PINFOLD_PACK_FAST=1
work=$(mktemp -d)
hub=
trap '[ -z "$hub" ] || kill "$hub" 2>/dev/null || true; rm -rf "$work"' EXIT
package=$(scripts/package.sh "$programs" "$work/out")
hub_package=$(scripts/package.sh --hub "$programs" "$work/out")
for made in "$package" "$hub_package"; do
  echo "$(basename "$made"): $(($(stat -c %s "$made") / 1024)) KiB"
done

# A system with no more than the package's scripts and programs need; it has users, and Debian's own helpers, which are in Perl.
root=$work/root
mkdir -p "$root"/{bin,dev,usr/bin,usr/sbin,proc,tmp,var/lib/dpkg/{info,updates,triggers}}
: >"$root/var/lib/dpkg/status"
: >"$root/dev/null"
install -m 755 "$(command -v busybox)" "$root/bin/busybox"
for name in sh rm rmdir chmod chown grep mkdir id; do ln -s busybox "$root/bin/$name"; done
for program in useradd groupadd; do install "$(command -v $program)" "$root/usr/sbin/$program"; done
dpkg -L perl-base init-system-helpers | while read -r file; do [ -d "$file" ] || echo "${file#/}"; done |
  tar -C / -cf - -T - 2>/dev/null | tar -C "$root" -xf -
ldd "$programs"/{pinfold,pinfoldd,pinfold-slurm,pinfold-hub-client,pinfold-hub} "$root"/usr/sbin/*add "$root/usr/bin/perl" | grep -o '/[^ ]*' |
  grep -v ':$' | sort -u | while read -r library; do
  install -D "$library" "$root$library"
done
mkdir -p "$root/etc"
echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"
: >"$root/etc/login.defs"
: >"$root/etc/shadow" && : >"$root/etc/gshadow"
# boots: from now on systemd is there, which notes what it is told.
boots() {
  mkdir -p "$root/run/systemd/system"
  printf '#!/bin/sh\necho "$@" >>/tmp/systemctl\ncase "$*" in *is-enabled*) echo enabled ;; esac\n' >"$root/usr/bin/systemctl"
  chmod 755 "$root/usr/bin/systemctl"
}

must() { "$@" || { echo "FAILED: $*" >&2; exit 1; }; }
install_it() { DEBIAN_FRONTEND=noninteractive dpkg --root="$root" --force-depends --force-confold --log=/dev/null --install "${1:-$package}" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }; }
run_dpkg() { dpkg --root="$root" --force-depends --log=/dev/null "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }; }

wanted=$root/etc/systemd/system/multi-user.target.wants
enabled() { test -L "$wanted/$1" && ! test -L "$root/etc/systemd/system/$1"; }
told() { grep -q -- "$1" "$root/tmp/systemctl" && rm "$root/tmp/systemctl"; }
fails() { ! "$@"; }

# In an image nothing runs, and the services are enabled.
install_it
must enabled pinfoldd.service
must fails test -e "$root/tmp/systemctl"
must grep -q '^pinfold-push:' "$root/etc/passwd"
boots
must chroot "$root" /usr/bin/pinfold --version
must chroot "$root" /usr/bin/pinfoldd --version
must chroot "$root" /usr/bin/pinfold-slurm sbatch --version
must test -x "$root/usr/bin/pinfold-hub-client"
for page in man1/pinfold.1 man1/pinfold-run.1 man1/pinfold-hub-client.1 man8/pinfold-admin-wlm.8 man5/pinfold.toml.5 man8/pinfoldd.8; do
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
must told 'restart pinfoldd.service'
must grep -q 'changed by the administrator' "$root/etc/pinfold/pinfold.toml"
run_dpkg --remove pinfold
must told 'stop pinfoldd.service'
must test ! -e "$root/usr/bin/pinfold" -a -e "$root/etc/pinfold/pinfold.toml" -a -d "$root/var/lib/pinfold"
install_it
must told 'start pinfoldd.service'
must enabled pinfoldd.service
# What an administrator disabled stays so.
rm "$wanted/pinfoldd.service"
install_it
must fails enabled pinfoldd.service
run_dpkg --purge pinfold
must test -z "$(find "$root/etc/systemd" "$root/var/lib/systemd" -name 'pinfold*' 2>/dev/null)"
must test ! -e "$root/usr/bin/pinfoldd" -a ! -e "$root/etc/pinfold" -a ! -e "$root/var/lib/pinfold"
echo "package: installed, upgraded with its configuration kept, removed and purged"
scripts/test-package-wlm.sh "$programs"
if command -v lintian >/dev/null; then
  scripts/package-wlm.sh "$programs" "$work/out" >/dev/null
  must lintian --allow-root --tag-display-limit 0 --fail-on error,warning "$work"/out/*.deb
  echo "package: lintian has nothing to say"
else
  echo "package: lintian SKIPPED, as it is not installed"
fi

# The hub's package.
rm -r "$root/usr/bin/systemctl" "$root/run/systemd"
mode() { stat -c "%a %u:%g" "$root$1"; }
install_it "$hub_package"
must enabled pinfold-hub.service
boots
user=$(grep '^pinfold-hub:' "$root/etc/passwd" | cut -d : -f 3,4)
must test "${user%:*}" -gt 0
must test "$(mode /var/lib/pinfold-hub)" = "700 $user"
must test "$(mode /etc/default/pinfold-hub)" = "640 0:0"
must test "$(mode /etc/pinfold-hub/pinfold-hub.toml)" = "644 0:0"
must test "$(mode /usr/bin/pinfold-hub)" = "755 0:0"
must test -s "$root/usr/share/man/man8/pinfold-hub.8.gz" -a -s "$root/lib/systemd/system/pinfold-hub.service"
# As the unit does: its command with what its files say, as its user.
as_hub() { chroot --userspec="$user" "$root" "$@"; }
database=$(sed -n 's/^PINFOLD_HUB_DATABASE=//p' "$root/etc/default/pinfold-hub")
options=$(sed -n 's/^PINFOLD_HUB_OPTIONS="\(.*\)"/\1/p' "$root/etc/default/pinfold-hub")
must test "$options" = "--listen 127.0.0.1:8470"
serve() {
  # What the one before said is not its.
  : >"$work/hub"
  # On another port, as one may have the usual one.
  chroot --userspec="$user" "$root" /usr/bin/pinfold-hub serve --config /etc/pinfold-hub/pinfold-hub.toml --database "$database" --listen 127.0.0.1:0 2>"$work/hub" &
  hub=$!
  until grep -q http "$work/hub" || ! kill -0 $hub 2>/dev/null; do sleep 0.1; done
  # The address that is listened on, or that of the configuration.
  url=$(grep -o 'https\?://[^ ]*$' "$work/hub") || { cat "$work/hub" >&2; exit 1; }
}
stop() { kill "$hub" && wait "$hub" || { cat "$work/hub" >&2; exit 1; }; hub=; }
# Every key that the file shows is one, with a value that is right.
sed 's/^# \(\[.*\|[a-z_]* = .*\)$/\1/' "$root/etc/pinfold-hub/pinfold-hub.toml" >"$root/tmp/shown.toml"
must grep -q '^database_max' "$root/tmp/shown.toml"
cp "$root/etc/pinfold-hub/pinfold-hub.toml" "$work/kept.toml"
cp "$root/tmp/shown.toml" "$root/etc/pinfold-hub/pinfold-hub.toml"
# The file that it names, which the site makes.
(umask 077 && printf '%040d' 7 >"$root/etc/pinfold-hub/proxy.secret")
chown "$user" "$root/etc/pinfold-hub/proxy.secret"
serve && stop
rm "$root/etc/pinfold-hub/proxy.secret"
cp "$work/kept.toml" "$root/etc/pinfold-hub/pinfold-hub.toml"
token=$(as_hub /usr/bin/pinfold-hub token --database "$database" --host node07 2>"$work/log") || { cat "$work/log" >&2; exit 1; }
must test "$(mode "${database#sqlite:}")" = "600 $user"
serve
asked() { curl --silent --output /dev/null --write-out '%{http_code}' --header "Authorization: Bearer $1" "$url/api/v1/me"; }
if command -v curl >/dev/null; then must test "$(asked "$token") $(asked other)" = "200 401"; fi
stop
echo '# changed by the administrator' >>"$root/etc/pinfold-hub/pinfold-hub.toml"
install_it "$hub_package"
must grep -q 'changed by the administrator' "$root/etc/pinfold-hub/pinfold-hub.toml"
must test "$(grep -c '^pinfold-hub:' "$root/etc/passwd")" = 1
tokens() { as_hub /usr/bin/pinfold-hub tokens --database "$database"; }
must grep -q node07 <<<"$(tokens)"
must told 'restart pinfold-hub.service'
run_dpkg --remove pinfold-hub
must told 'stop pinfold-hub.service'
must test ! -e "$root/usr/bin/pinfold-hub" -a -s "$root${database#sqlite:}"
install_it "$hub_package"
must enabled pinfold-hub.service
must grep -q node07 <<<"$(tokens)"
run_dpkg --purge pinfold-hub
must test ! -e "$root/usr/bin/pinfold-hub" -a ! -e "$root/etc/pinfold-hub" -a ! -e "$root/etc/default/pinfold-hub" -a ! -e "$root/var/lib/pinfold-hub"
echo "package: the hub served as its user; upgraded, removed and installed again with its database; purged"
