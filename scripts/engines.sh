#!/usr/bin/env bash
# Workflow engines from the registries of Python and of Maven, end to end on pinfold's Slurm commands: engines.sh PROGRAMS
# [ENGINE...]. They are installed into a virtual environment in ENGINES_VENV (default: target/engines-venv), which is kept
# for the next time. An engine that cannot be had is skipped, with the reason; the exit status says whether any that ran failed.
set -uo pipefail
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
"$programs/pinfoldd" --socket "$PINFOLD_SOCKET" --state-dir "$PINFOLD_STATE_DIR" --set slots.factor=4 2>"$work/daemon.log" &
daemon=$!
# Ends what this script started: its daemon and the jobs in it.
end() {
  "$programs/pinfold" slurm -- scancel --me >/dev/null 2>&1
  kill "$daemon" 2>/dev/null && wait "$daemon"
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
  if (cd "$work/$engine" && PATH=$venv/bin:$PATH timeout 300 "$programs/pinfold" slurm -- bash "$here/$engine.sh" "$here") >"$work/$engine.log" 2>&1
  then
    echo "$engine: passed in $((SECONDS - started)) s"
  else
    echo "$engine: FAILED after $((SECONDS - started)) s"
    tail -n 40 "$work/$engine.log"
    failed=1
  fi
done
exit "$failed"
