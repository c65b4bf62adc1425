# A parent with two children whose results it sums, each a job; and one that fails, of which it hears.
set -euo pipefail
export TOIL_SLURM_PE=pinfold
run() {
  python "$1/toil_jobs.py" "./store-$2" --batchSystem slurm --disableCaching --maxLocalJobs 1 --statePollingWait 1 \
    --retryCount 0 --defaultMemory 200Mi --defaultCores 1 --defaultDisk 1Mi --workDir "$PWD" --kind "$2"
}
run "$1" good >good 2>good.log || { cat good.log; exit 1; }
[ "$(tail -n 1 good)" = 14 ]
! run "$1" bad >/dev/null 2>&1
[ "$(sacct -X -n -P -o State | grep -c COMPLETED)" -ge 3 ]
