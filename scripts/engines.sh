#!/usr/bin/env bash
# Workflow engines from the registries of Python and of Maven, end to end on pinfold's Slurm commands: engines.sh
# [--pressure] PROGRAMS [ENGINE...]. With --pressure jobs of a higher priority take memory and cores again and again, so that
# the engines' jobs are frozen and paged out: each engine has to end as well as without, and at least one of its jobs has to
# have been frozen. That takes root, and swap: a swap file of 1 GiB if the host has none. Engines are installed into a virtual
# environment in ENGINES_VENV (default: target/engines-venv), which is kept for the next time. An engine that cannot be had is
# skipped, with the reason; the exit status says whether any that ran failed.
set -uo pipefail
pressure=
[ "${1-}" != --pressure ] || { pressure=600 && shift; }
programs=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
here=$(realpath scripts/engines)
venv=$(realpath -m "${ENGINES_VENV:-${CARGO_TARGET_DIR:-target}/engines-venv}")
declare -A packages=(
  [snakemake]="snakemake>=9,<10 snakemake-executor-plugin-slurm"
  [native]="snakemake>=9,<10 ./python ./python/snakemake-executor-plugin-pinfold"
  [resume]="snakemake>=9,<10 snakemake-executor-plugin-slurm"
  [cluster_generic]="snakemake>=9,<10 snakemake-executor-plugin-cluster-generic"
  [submitit]=submitit
  [dask]="dask-jobqueue distributed"
  [parsl]=parsl
  [executorlib]="executorlib[cluster]"
  [psij]=psij-python
  [toil]=toil
  [nextflow]=io.nextflow:nextflow:23.10.1
  [launchers]=mpi4py
)
[ $# -gt 0 ] || set -- snakemake native resume cluster_generic submitit dask parsl executorlib psij toil nextflow launchers
[ -x "$venv/bin/python" ] || python3 -m venv "$venv" || { echo "engines: skipped: no virtual environment can be made"; exit 0; }

work=$(mktemp -d)
# Whose settings and store Maven reads.
maven=$HOME
# The Python package is installed without programs: those here are tested.
export PINFOLD_PROGRAMS=none
export PINFOLD=$programs/pinfold PINFOLD_SOCKET=$work/socket PINFOLD_STATE_DIR=$work/state PINFOLD_SLURM_DIR=$work/slurm HOME=$work/home
mkdir -p "$HOME"
swap=
settings=(--set slots.factor=4)
if [ -n "$pressure" ]; then
  export PAUSE_S=10
  # Two such jobs take both cores, and leave too little memory for a third.
  settings=(--set slots.factor=1 --set cpu.preemption=hard --set host.cpus=0-1 --set host.memory="$((2 * pressure + 50))MiB")
  if [ "$(id -u)" != 0 ]; then
    echo "engines: skipped: --pressure takes root, whose jobs' memory can be paged out"
    exit 0
  fi
  if [ "$(wc -l </proc/swaps)" = 1 ]; then
    # Not below /tmp, which may be memory.
    swap=$(mktemp --tmpdir="$(realpath "$venv")")
    dd if=/dev/zero of="$swap" bs=1M count=1024 status=none && chmod 600 "$swap" && mkswap "$swap" >/dev/null && swapon "$swap" ||
      { rm -f "$swap"; echo "engines: skipped: no swap file can be had"; exit 0; }
  fi
fi
"$programs/pinfoldd" --socket "$PINFOLD_SOCKET" --state-dir "$PINFOLD_STATE_DIR" "${settings[@]}" 2>"$work/daemon.log" &
daemon=$!
beside=
# Ends the jobs that press.
relieve() {
  [ -z "$beside" ] || { kill "$beside" && wait "$beside"; } 2>/dev/null
  beside=
}
# Ends what this script started: its daemon and the jobs in it.
end() {
  relieve
  "$programs/pinfold" slurm -- scancel --me >/dev/null 2>&1
  kill "$daemon" 2>/dev/null && wait "$daemon"
  [ -z "$swap" ] || { swapoff "$swap"; rm -f "$swap"; }
  rm -rf "$work"
}
trap end EXIT
for _ in $(seq 200); do [ -S "$PINFOLD_SOCKET" ] && break; sleep 0.1; done

# Installs what an engine is made of.
install() {
  if [ "$1" != nextflow ]; then
    # shellcheck disable=SC2086 # several packages
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check ${packages[$1]} 2>&1
    return
  fi
  command -v java >/dev/null || { echo "java is not here"; return 1; }
  export ENGINES_NEXTFLOW=$venv/nextflow
  [ ! -s "$ENGINES_NEXTFLOW/classpath" ] || return 0
  command -v mvn >/dev/null || { echo "mvn is not here"; return 1; }
  mkdir -p "$ENGINES_NEXTFLOW"
  IFS=: read -r group artifact version <<<"${packages[$1]}"
  cat >"$ENGINES_NEXTFLOW/pom.xml" <<P
<project><modelVersion>4.0.0</modelVersion><groupId>engines</groupId><artifactId>engines</artifactId><version>1</version>
<dependencies><dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version></dependency></dependencies></project>
P
  # Its status may tell of its own plugins: the class path is what counts.
  HOME=$maven mvn -q -f "$ENGINES_NEXTFLOW/pom.xml" dependency:build-classpath -Dmdep.outputFile=classpath 2>&1
  [ -s "$ENGINES_NEXTFLOW/classpath" ]
}

# Jobs since then, other than those that press, that were frozen.
frozen() {
  "$programs/pinfold" report --json --all --since "@$1" |
    python3 -c 'import json, sys; print(sum(job["name"] != "pressure" and job["suspended_s"] > 0 for job in map(json.loads, sys.stdin)))'
}

patience=300
[ -z "$pressure" ] || patience=1200
failed=0
for engine in "$@"; do
  if [ -z "${packages[$engine]-}" ]; then
    echo "engines: $engine is none of ${!packages[*]}" >&2
    exit 2
  fi
  if ! install "$engine" >"$work/install.log"; then
    said=$(cat "$work/install.log")
    echo "$engine: skipped: $(tail -n 1 <<<"$said")"
    continue
  fi
  mkdir -p "$work/$engine"
  started=$SECONDS
  begun=$(date +%s)
  if [ -n "$pressure" ]; then
    bash "$here/pressure.sh" "$pressure" >>"$work/pressure.log" 2>&1 & beside=$!
  fi
  if (cd "$work/$engine" && PATH=$venv/bin:$PATH timeout "$patience" "$programs/pinfold" slurm -- bash "$here/$engine.sh" "$here") >"$work/$engine.log" 2>&1
  then
    said="passed in $((SECONDS - started)) s"
    [ -z "$pressure" ] || {
      froze=$(frozen "$begun")
      said+=", $froze of its jobs were frozen"
      [ "$froze" -gt 0 ] || { said="FAILED: none of its jobs was frozen"; failed=1; }
    }
    echo "$engine: $said"
  else
    echo "$engine: FAILED after $((SECONDS - started)) s"
    tail -n 40 "$work/$engine.log"
    failed=1
  fi
  relieve
done
exit "$failed"
