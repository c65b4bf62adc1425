#!/usr/bin/env bash
# Makes the Debian packages of hooks from the programs in the directory $1, and installs, upgrades and removes them below a
# directory of its own. That managers take the hooks is tested by wlm.sh.
set -euo pipefail
programs=$1
cd "$(dirname "$0")/.."
for needed in dpkg dpkg-deb busybox; do
  command -v $needed >/dev/null || { echo "hooks' packages: SKIPPED, as $needed is not installed"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "hooks' packages: SKIPPED, as only root can install one"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
must() { "$@" || { echo "FAILED: $*" >&2; exit 1; }; }
fails() { ! "$@" >/dev/null 2>&1; }

scripts/package-wlm.sh "$programs" "$work/out" >"$work/made"
scripts/package-wlm.sh "$programs" "$work/newer" +newer1 >/dev/null 2>&1
must test "$(wc -l <"$work/made")" -ge 3
managers=$(sed 's#.*/pinfold-\([a-z]*\)_.*#\1#' "$work/made" | tr '\n' ' ')
. scripts/debian.sh
version=$("$programs/pinfold" --version | cut -d ' ' -f 2)

# A system with a shell, and what scripts of packages call.
root=$work/root
mkdir -p "$root"/{bin,dev,usr/bin,tmp,var/lib/dpkg/{info,updates,triggers}}
: >"$root/dev/null"
: >"$root/var/lib/dpkg/status"
install -m 755 "$(command -v busybox)" "$root/bin/busybox"
for name in sh grep; do ln -s busybox "$root/bin/$name"; done
run_dpkg() { DEBIAN_FRONTEND=noninteractive dpkg --root="$root" --log=/dev/null "$@" >"$work/log" 2>&1; }
must_dpkg() { run_dpkg "$@" || { cat "$work/log"; echo "FAILED: dpkg $*" >&2; exit 1; }; }

# Without the program a hook can do nothing: the packages say so.
for file in "$work"/out/*.deb; do
  dpkg-deb --field "$file" Depends >"$work/depends"
  # A new program alone must not have the hooks removed.
  must grep -qE "(^|, )pinfold \(>= $hooks_since\)" "$work/depends"
  must fails run_dpkg --install "$file"
  must grep -q 'depends on pinfold' "$work/log"
done
must dpkg --compare-versions "$hooks_since" le "$version"
must_dpkg --force-depends --install "$work"/out/*.deb
# Nothing names the directory that they were made in, or the program that made them.
must fails grep -rqF -e "$work" -e "$(realpath "$programs")" "$root/usr/lib/pinfold" "$root/etc"
for hook in gridengine/pinfold-starter.sh gridengine/pinfold-load.sh htcondor/pinfold-wrapper.sh htcondor/pinfold-cron.sh; do
  must test -x "$root/usr/lib/pinfold/wlm/$hook"
  must grep -qF '/usr/bin/pinfold --no-autostart --socket /run/pinfold/pinfold.sock wlm' "$root/usr/lib/pinfold/wlm/$hook"
  must sh -n "$root/usr/lib/pinfold/wlm/$hook"
done
must grep -qF '["/usr/bin/pinfold", "--no-autostart", "--socket", "/run/pinfold/pinfold.sock"' "$root/usr/lib/pinfold/wlm/pbs/pinfold_hook.py"
must test "$(readlink "$root/etc/condor/config.d/90-pinfold.conf")" = /usr/lib/pinfold/wlm/htcondor/90-pinfold.conf
must grep -qx 'USER_JOB_WRAPPER = /usr/lib/pinfold/wlm/htcondor/pinfold-wrapper.sh' "$root/usr/lib/pinfold/wlm/htcondor/90-pinfold.conf"
must grep -q '^qconf .* starter_method /usr/lib/pinfold/wlm/gridengine/pinfold-starter.sh QUEUE$' "$root/usr/share/doc/pinfold-gridengine/README"
must grep -q '^qmgr .*/usr/lib/pinfold/wlm/pbs/pinfold_hook.py' "$root/usr/share/doc/pinfold-pbs/README"
case " $managers" in
*' slurm '*)
  line='optional /usr/lib/pinfold/wlm/slurm/pinfold_spank.so pinfold=/usr/bin/pinfold socket=/run/pinfold/pinfold.sock'
  must test "$(readlink "$root/etc/slurm/plugstack.conf.d/pinfold.conf")" = /usr/lib/pinfold/wlm/slurm/plugstack.conf
  must test "$(cat "$root/usr/lib/pinfold/wlm/slurm/plugstack.conf")" = "$line"
  must test -s "$root/usr/lib/pinfold/wlm/slurm/pinfold_spank.so"
  # The release whose headers it was built against, and no other.
  release=$(dpkg-query -W -f '${Version}' libslurm-dev 2>/dev/null | grep -o '^[0-9]*\.[0-9]*' || true)
  [ -z "$release" ] || must grep -qF "slurm-wlm-basic-plugins (>= $release), slurm-wlm-basic-plugins (<<" < <(dpkg-deb --field "$work"/out/pinfold-slurm_*.deb Depends)
  ;;
*) echo "hooks' packages: without that for Slurm" ;;
esac

must_dpkg --force-depends --install "$work"/newer/*.deb
must test "$(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Version}' pinfold-pbs)" = "$version+newer1"

# While a queue uses the hooks they stay, and it is said how to take them back.
install "$programs/pinfold" "$root/usr/bin/pinfold"
ldd "$programs/pinfold" | grep -o '/[^ ]*' | while read -r library; do install -D "$library" "$root$library"; done
printf '#!/bin/sh\necho "qname all.q"\necho "starter_method /usr/lib/pinfold/wlm/gridengine/pinfold-starter.sh"\n' >"$root/bin/qconf"
chmod 755 "$root/bin/qconf"
must fails run_dpkg --remove pinfold-gridengine
must grep -q 'qconf -mattr queue starter_method NONE all.q' "$work/log"
must test -x "$root/usr/lib/pinfold/wlm/gridengine/pinfold-starter.sh"
rm "$root/bin/qconf"
must_dpkg --remove pinfold-gridengine pinfold-pbs
rm "$root/usr/bin/pinfold"
for manager in $managers; do
  [ "$manager" = gridengine ] || [ "$manager" = pbs ] || must_dpkg --purge "pinfold-$manager"
  must test ! -e "$root/usr/lib/pinfold/wlm/$manager"
done
# Links to what is gone would be found by managers.
must test -z "$(find "$root/usr" "$root/etc" -name '*pinfold*' 2>/dev/null | tee "$work/left")"
echo "hooks' packages (${managers% }): installed, upgraded, removed"
