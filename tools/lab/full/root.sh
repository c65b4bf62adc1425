#!/usr/bin/env bash
# Makes the file system of the lab's full machine, a Debian system with systemd, of trixie with the workload managers too:
# root.sh OUT SUITE ARCHIVE. Needs root and mmdebstrap. All that is the lab's own comes from elsewhere as it boots (lab/full/init).
set -euo pipefail
out=$(realpath -m "$1") suite=$2 archive=$3
packages=systemd,systemd-sysv,dbus,iproute2,procps
if [ "$suite" = trixie ]; then
  packages+=,munge,slurmctld,slurmd,slurm-client,condor,gridengine-master,gridengine-exec,gridengine-client
  # Slurm's plugin is built on the host that it is for.
  packages+=,gcc,libc6-dev,libslurm-dev
fi
work=$(mktemp -d "$out.XXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root
printf '127.0.0.1 localhost\n127.0.1.1 lab\n' >"$work/hosts"
# What one of the packages asks before it is unpacked: it must know the machine's name, and resolve it.
cat >"$work/answers" <<'A'
gridengine-master shared/gridenginemaster string lab
gridengine-master shared/gridenginecell string default
gridengine-master shared/gridengineconfig boolean true
A

# In a name of its own (hostname), which nothing outside sees.
unshare --uts sh -c 'hostname lab && exec "$@"' - \
  mmdebstrap --quiet --mode=root --variant=minbase --components=main --include="$packages" \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-include=/usr/share/man/man1*' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --dpkgopt='path-exclude=/usr/share/info/*' --aptopt='Acquire::Languages "none"' \
  --essential-hook="cp '$work/hosts' \"\$1\"/etc/hosts" \
  --essential-hook="chroot \"\$1\" debconf-set-selections <'$work/answers'" \
  "$suite" "$root" "$archive" >&2

# Started by the suite, when their turn comes.
for service in munge slurmctld slurmd condor gridengine-master gridengine-exec; do
  find "$root/etc/systemd/system" "$root"/etc/rc?.d -name "*$service*" -type l -delete
done
chroot "$root" useradd --create-home --uid 1000 worker
echo lab >"$root/etc/hostname"
cp "$work/hosts" "$root/etc/hosts"
: >"$root/etc/fstab"
# Not its first boot.
echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"
mkdir "$root/lab"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/dev/*
rm -f "$out"
truncate --size 3G "$out"
PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q -F -E lazy_itable_init=1 -m 0 -d "$root" "$out"
