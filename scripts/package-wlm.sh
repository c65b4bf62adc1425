#!/usr/bin/env bash
# Makes Debian packages of the hooks for workload managers: package-wlm.sh PROGRAMS OUT [REVISION], as package.sh does it of the
# programs. Says the packages' names. The plugin for Slurm is built here and is for this version of Slurm: without a C compiler or
# Slurm's headers that package is left out, which is said.
set -euo pipefail
programs=$(realpath "$1") out=$(realpath -m "$2")
cd "$(dirname "$0")/.."
. scripts/debian.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$("$programs/pinfold" --version | cut -d ' ' -f 2)${3-}
mkdir -p "$out"
unset SLURM_CONF SGE_ROOT SGE_CELL

# hooks_below ROOT MANAGER: its hooks in a system with that root; prints the lines to add there.
hooks_below() { "$programs/pinfold" --no-autostart wlm install "$2" --root "$1"; }

# lines_of FILE: of what `install` prints, the lines to add to it.
lines_of() { awk -v file="# in $1:" '$0 == file { on = 1; next } on && $0 == "" { exit } on'; }

# readme PACKAGE SENTENCE LINES: what its administrator is to know.
readme() {
  local documents=$root/usr/share/doc/$1
  debian_documents "$1"
  printf '%s\n\n%s\n\nMore: /usr/share/doc/pinfold/workload-managers.md\n' "$2" "$3" >"$documents/README"
}

# package NAME ARCHITECTURE RELATIONS MANAGER: of what is below `root`; RELATIONS are further lines of its control file.
package() {
  local name=$1 architecture=$2 file
  find "$root/usr" -type d -exec chmod 755 {} +
  cat >"$root/DEBIAN/control" <<C
Package: $name
Version: $version
Architecture: $architecture
Maintainer: The pinfold maintainers <maintainers@pinfold.invalid>
Section: admin
Priority: optional
$3
Installed-Size: $(du -sk --exclude DEBIAN "$root" | cut -f 1)
Description: hooks by which $4 asks pinfold
 $4 chooses the host and sends more jobs than it has cores;
 pinfold decides on the host which of them run now, which wait, and which
 are suspended while memory is short.
C
  file=$out/${name}_${version}_$architecture.deb
  dpkg-deb --root-owner-group --build "$root" "$file" >/dev/null
  echo "$file"
}
begin() {
  root=$work/$1
  install -d -m 755 "$root" "$root/DEBIAN"
}

# Files that a manager reads are links to what goes with the package: they do not stay behind to name hooks that are gone.
linked() { install -d "$root/$(dirname "$2")" && ln -s "/$1" "$root/$2"; }

# kept_while_named MANAGER: the package is not removed while the manager names its hooks.
kept_while_named() {
  script prerm <<S
#!/bin/sh
set -e
if [ "\$1" = remove ]; then
  pinfold --no-autostart wlm uninstall $1 --dry-run >/dev/null || {
    echo "pinfold-$1: where the manager is gone for good, first: rm -r /usr/lib/pinfold/wlm/$1" >&2
    exit 1
  }
fi
S
}

slurm_package() {
  local lines slurm next below=usr/lib/pinfold/wlm/slurm
  begin pinfold-slurm
  lines=$(hooks_below "$root" slurm 2>"$work/said") || {
    echo "pinfold-slurm is left out: $(grep -v ': wrote ' "$work/said" | tail -n 1)" >&2
    return
  }
  stripped "$root/$below/pinfold_spank.so"
  lines_of /etc/slurm/plugstack.conf <<<"$lines" >"$root/$below/plugstack.conf"
  linked $below/plugstack.conf etc/slurm/plugstack.conf.d/pinfold.conf
  # Slurm loads plugins of its own release only, the first two parts of its version.
  slurm=$(printf '#include <slurm/slurm_version.h>\nSLURM_VERSION_NUMBER\n' | ${CC:-cc} -E -P - | tail -n 1)
  slurm=$(release "$slurm") next=$(printf '%s.%02d' "${slurm%.*}" $((10#${slurm#*.} + 1)))
  readme pinfold-slurm "Slurm's daemon on each host and its commands load the plugin by themselves where /etc/slurm/plugstack.conf
includes plugstack.conf.d, as Debian's does. slurmd reads at its start that the plugin has an epilog: restart it once." \
    "$(sed -n '/^scontrol/p' <<<"$lines" | sed 's/^/More jobs than cores: /')"
  install -D -m 644 -t "$root/lib/systemd/system" packaging/pinfold-slurm-sync.service
  install -D -m 644 packaging/pinfold-slurm.default "$root/etc/default/pinfold-slurm"
  echo /etc/default/pinfold-slurm >"$root/DEBIAN/conffiles"
  for when in prerm postrm; do printf '#!/bin/sh\nset -e\n#UNITS#\n' | script $when pinfold-slurm-sync.service; done
  script postinst pinfold-slurm-sync.service <<'S'
#!/bin/sh
set -e
#UNITS#
if [ "$1" = configure ]; then
  # Jobs run on while slurmd is replaced.
  [ ! -d /run/systemd/system ] || systemctl try-restart slurmd.service || true
  grep -qs '^[[:space:]]*include.*plugstack\.conf\.d' /etc/slurm/plugstack.conf ||
    echo "pinfold-slurm: add 'include /etc/slurm/plugstack.conf.d/*.conf' to /etc/slurm/plugstack.conf" >&2
fi
S
  package pinfold-slurm "$(dpkg --print-architecture)" "Depends: pinfold (>= $hooks_since), libc6, slurm-wlm-basic-plugins (>= $slurm), slurm-wlm-basic-plugins (<< $next~)
Enhances: slurmd, slurm-client" Slurm
}
# release NUMBER: 22.05 of the number of a version in Slurm's headers, 0x160508.
release() { printf '%d.%02d' $(($1 >> 16)) $((($1 >> 8) & 255)); }

gridengine_package() {
  begin pinfold-gridengine
  hooks_below "$root" gridengine >"$work/lines" 2>/dev/null
  readme pinfold-gridengine "Grid Engine's administrator adds the hooks to a queue (QUEUE) with these commands:" "$(cat "$work/lines")"
  # A queue whose starter is gone runs no job.
  kept_while_named gridengine
  package pinfold-gridengine all "Depends: pinfold (>= $hooks_since)
Recommends: gridengine-exec
Enhances: gridengine-exec" "Grid Engine"
}

htcondor_package() {
  local below=usr/lib/pinfold/wlm/htcondor
  begin pinfold-htcondor
  hooks_below "$root" htcondor >"$work/lines" 2>/dev/null
  lines_of /etc/condor/config.d/90-pinfold.conf <"$work/lines" >"$root/$below/90-pinfold.conf"
  linked $below/90-pinfold.conf etc/condor/config.d/90-pinfold.conf
  readme pinfold-htcondor "HTCondor reads /etc/condor/config.d/90-pinfold.conf when it is reconfigured (condor_reconfig)." ""
  for when in postinst postrm; do
    script $when <<'S'
#!/bin/sh
set -e
case $1 in
configure | remove)
  if [ -d /run/systemd/system ] && systemctl --quiet is-active condor.service; then
    condor_reconfig >/dev/null || true
  fi
  ;;
esac
S
  done
  package pinfold-htcondor all "Depends: pinfold (>= $hooks_since)
Recommends: condor | htcondor
Enhances: condor" HTCondor
}

pbs_package() {
  begin pinfold-pbs
  hooks_below "$root" pbs >"$work/lines" 2>/dev/null
  readme pinfold-pbs "The administrator of OpenPBS or PBS Professional imports the hook with these commands:" "$(cat "$work/lines")"
  kept_while_named pbs
  package pinfold-pbs all "Depends: pinfold (>= $hooks_since)
Suggests: openpbs-execution
Enhances: openpbs-execution" PBS
}

slurm_package
gridengine_package
htcondor_package
pbs_package
