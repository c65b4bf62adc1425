#!/usr/bin/env bash
# Makes an RPM of built programs: rpm.sh PROGRAMS OUT, the directory with pinfold and pinfoldd, and the one that the
# package is written into. Says the package's name. No rights are needed; rpmbuild is.
set -euo pipefail
programs=$(realpath "$1") out=$(realpath -m "$2")
cd "$(dirname "$0")/.."
command -v rpmbuild >/dev/null || { echo "rpmbuild is not installed (Debian: apt-get install rpm)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$("$programs/pinfold" --version | cut -d ' ' -f 2)
scripts/layout.sh "$programs" "$work/root"
# Where this family keeps units and completions.
mkdir -p "$work/root/usr/lib"
mv "$work/root/lib/systemd" "$work/root/usr/lib/systemd" && rmdir "$work/root/lib"
mkdir -p "$work/root/usr/share/zsh/site-functions"
mv "$work/root/usr/share/zsh/vendor-completions/_pinfold" "$work/root/usr/share/zsh/site-functions/_pinfold"
rmdir "$work/root/usr/share/zsh/vendor-completions"

{
  cat <<S
Name: pinfold
Version: $version
Release: 1
Summary: Multicore resource manager for batch hosts
License: MIT OR Apache-2.0
# The programs are built and stripped already.
%global debug_package %{nil}
%global __os_install_post %{nil}
%global _build_id_links none

%description
Makes one machine finish more work, predictably: decides from live
measurements which job runs now, on which cores, how far its memory may
grow, and which is suspended and paged out when memory runs short; records
what each job really used, and explains every decision.

%install
cp -a $work/root/. %{buildroot}

%pre
if [ "\$1" -gt 1 ] && grep -qs 'populated 1' /sys/fs/cgroup/system.slice/pinfoldd.service/pinfold/cgroup.events &&
  [ "\$(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')" -lt 254 ]; then
  echo "pinfold: stop new starts (pinfold admin drain), and upgrade when no job runs: this systemd cannot do it before." >&2
  exit 1
fi

%post
systemd-sysusers pinfold.conf >/dev/null 2>&1 || true
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  # Jobs run on while the daemon is replaced.
  [ "\$1" = 1 ] || ! systemctl is-enabled --quiet pinfoldd.service || systemctl restart pinfoldd.service || true
  [ "\$1" = 1 ] || systemctl try-restart pinfold-push.service || true
fi

%preun
if [ "\$1" = 0 ]; then
  [ ! -d /run/systemd/system ] || systemctl disable --now pinfold-push.service || true
  [ ! -d /run/systemd/system ] || systemctl disable --now pinfoldd.service || true
  [ ! -d /run/systemd/system ] || systemctl stop pinfold-jobs.service || true
  # Nobody's job stays frozen or bounded by a program that is gone.
  pinfold rescue >/dev/null || true
fi

%postun
[ ! -d /run/systemd/system ] || systemctl daemon-reload

%files
S
  # Directories that other packages have as well are not this one's.
  (cd "$work/root" && find . \( -type f -o -type l \) -printf '/%P\n' | sort | sed 's|^/etc/|%config(noreplace) /etc/|; s|^/usr/share/doc/|%doc &|')
} >"$work/pinfold.spec"

# As in package.sh.
packed=()
[ -z "${PINFOLD_PACK_FAST:-}" ] || packed=(--define "_binary_payload w1.gzdio")
rpmbuild -bb --quiet "${packed[@]}" --define "_topdir $work/top" --define "_rpmdir $work/rpms" "$work/pinfold.spec" >"$work/log" 2>&1 || {
  cat "$work/log" >&2
  exit 1
}
mkdir -p "$out"
package=$(find "$work/rpms" -name '*.rpm')
cp "$package" "$out"
echo "$out/$(basename "$package")"
