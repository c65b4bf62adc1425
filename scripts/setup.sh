#!/usr/bin/env bash
# Gets what this project needs from the distribution. As root on a Debian-like system it installs what is missing;
# after a question on a terminal; otherwise it names it and goes on: programs that are not there are left out by those who
# would use them.
# Usage: setup.sh [--build|--rpm|--test|--browser|--wlm|--lab|--demo|--bench]
set -euo pipefail

build=(gcc:gcc make:make git:git)
# A second opinion on machines, for tests only.
opinion=(lstopo-no-graphics:hwloc-nox hwloc-calc:hwloc-nox)
# Reads exported tables back.
reader=(ensurepip:python3-venv)
# A database for several hubs: tests start one of their own.
sql=(postgres:postgresql)
# A browser, and what it writes many alphabets with.
browser=(chromium:chromium /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf:fonts-dejavu-core)
# The other packages: made, and read back.
rpm=(rpmbuild:rpm rpm2cpio:rpm2cpio cpio:cpio)
# Debian's own check of packages.
package=(lintian:lintian)
# The emulated host.
lab=(qemu-system-x86_64:qemu-system-x86 busybox:busybox-static dpkg-deb:dpkg ldd:libc-bin strip:binutils xz:xz-utils)
# The Debian system that it is in its full form.
debian=(mmdebstrap:mmdebstrap /usr/sbin/mkfs.ext4:e2fsprogs)
# Real programs with their example data, and what unpacks these.
demo=(velveth:velvet /usr/share/doc/velvet/examples/test_reads.fa.xz:velvet-example
  bowtie:bowtie /usr/share/doc/bowtie/examples/indexes/e_coli.1.ebwt:bowtie-examples
  muscle3:muscle3 hpcc:hpcc fio:fio xz:xz-utils gzip:gzip parallel:parallel)
# What writes through memory.
stress=(stress-ng:stress-ng)
# Launchers to compare with.
peers=(parallel:parallel tsp:task-spooler xargs:findutils python3:python3-venv earlyoom:earlyoom)

# Real workload managers, and the headers that a plugin is built against.
managers=(slurmctld:slurmctld slurmd:slurmd srun:slurm-client munged:munge
  '/usr/lib/*/slurm-wlm/task_affinity.so:slurm-wlm-basic-plugins' /usr/include/slurm/spank.h:libslurm-dev
  /usr/lib/gridengine/sge_qmaster:gridengine-master /usr/lib/gridengine/sge_execd:gridengine-exec qconf:gridengine-client)
# The database that sacct asks.
accounts=(slurmdbd:slurmdbd '/usr/lib/*/slurm-wlm/accounting_storage_mysql.so:slurm-wlm-mysql-plugin'
  mariadbd:mariadb-server-core my_print_defaults:mariadb-client-core)

PATH=$PATH:/usr/sbin:/sbin
case "${1:---build}" in
  --build) list=("${build[@]}") ;;
  --rpm) list=("${build[@]}" "${rpm[@]}") ;;
  --test) list=("${build[@]}" "${opinion[@]}" "${lab[@]}" "${reader[@]}" "${rpm[@]}" "${package[@]}" "${managers[@]}" "${sql[@]}") ;;
  --browser) list=("${build[@]}" "${reader[@]}" "${browser[@]}") ;;
  --wlm) list=("${build[@]}" "${managers[@]}" "${accounts[@]}") ;;
  --lab) list=("${build[@]}" "${lab[@]}" "${debian[@]}") ;;
  --demo) list=("${build[@]}" "${demo[@]}") ;;
  --bench) list=("${build[@]}" "${demo[@]}" "${stress[@]}" "${peers[@]}" "${managers[@]}" "${sql[@]}") ;;
  *) echo "usage: $0 [--build|--rpm|--test|--browser|--wlm|--lab|--demo|--bench]" >&2; exit 2 ;;
esac

# Whether the program, file or header $1 is there.
there() {
  case "$1" in
    /*) compgen -G "$1" >/dev/null ;;
    ensurepip) python3 -c 'import ensurepip' 2>/dev/null ;;
    postgres) command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

lacking() {
  local item
  for item in "${list[@]}"; do
    there "${item%%:*}" || echo "${item##*:}"
  done
}

mapfile -t missing < <(lacking)
# A user at a terminal is asked; continuous integration (CI is set) and scripts are not.
wanted() {
  [ -z "${CI:-}" ] && [ -t 0 ] && [ -t 2 ] || return 0
  local answer=
  read -r -p "Install with apt-get: ${missing[*]}? Without them their tests and programs are left out. [Y/n] " answer || true
  case "$answer" in n* | N*) return 1 ;; esac
}

# Packages start their services and have them started at boot, which none of them is for here. What forbids it is as it was
# when the script ends.
policy=/usr/sbin/policy-rc.d
quiet_installs() {
  [ -e "$policy" ] && return
  printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
  trap 'exit 130' INT TERM HUP
}
not_at_boot() {
  [ -d /run/systemd/system ] || return 0
  local unit
  for unit in $(dpkg -L "$1" 2>/dev/null | sed -n 's#^/lib/systemd/system/\([^/]*\.service\)$#\1#p; s#^/etc/init\.d/\(.*\)$#\1.service#p' | sort -u); do
    systemctl disable --quiet "$unit" 2>/dev/null || true
  done
}

if [ "${#missing[@]}" -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && wanted; then
  echo "Installing: ${missing[*]}" >&2
  export DEBIAN_FRONTEND=noninteractive
  if [[ " ${missing[*]} " = *' postgresql '* ]] && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    # Programs alone: no server of the host's own is made and started.
    mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
  fi
  apt-get update -qq >&2 || echo "The package lists could not be renewed; trying with the old ones." >&2
  # One by one, so that a package that cannot be had does not keep the others away.
  quiet_installs
  printf '%s shared/gridengineconfig boolean false\n' gridengine-master gridengine-client gridengine-exec |
    debconf-set-selections 2>/dev/null || true
  for package in "${missing[@]}"; do
    before=$(dpkg-query -W -f '${Package}\n' 2>/dev/null | sort)
    apt-get install -y -qq --no-install-recommends "$package" >/dev/null || echo "Not installed: $package" >&2
    for new in $(comm -13 <(echo "$before") <(dpkg-query -W -f '${Package}\n' 2>/dev/null | sort)); do not_at_boot "$new"; done
  done
  mapfile -t missing < <(lacking)
fi
if [ "${#missing[@]}" -gt 0 ]; then
  echo "Missing, and done without: ${missing[*]} (as root: apt-get install ${missing[*]})" >&2
fi
if [ "${1:-}" = --test ]; then
  # What reads an exported Parquet file back is not pinfold's own.
  python="${CARGO_TARGET_DIR:-target}/python"
  if ! "$python/bin/python" -c 'import pyarrow' 2>/dev/null; then
    { python3 -m venv "$python" && "$python/bin/pip" install --quiet --timeout 10 --retries 1 pyarrow; } >/dev/null 2>&1 ||
      echo "Missing, and done without: pyarrow (python3 -m venv $python && $python/bin/pip install pyarrow)" >&2
  fi
fi
if [ "${1:-}" = --bench ]; then
  # HyperQueue comes as a Python wheel only.
  peers_python="${CARGO_TARGET_DIR:-target}/peers"
  if ! "$peers_python/bin/python" -c 'import hyperqueue' 2>/dev/null; then
    { python3 -m venv "$peers_python" && "$peers_python/bin/pip" install --quiet hyperqueue==0.27.0; } >/dev/null 2>&1 ||
      echo "Missing, and done without: HyperQueue (python3 -m venv $peers_python && $peers_python/bin/pip install hyperqueue)" >&2
  fi
fi
if ! command -v cargo >/dev/null; then
  echo "Missing: cargo, from Rust 1.95 or newer (https://rustup.rs)" >&2
  exit 1
fi
