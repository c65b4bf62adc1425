# A workflow of three jobs, one of which depends on the others; and one that fails, of which it hears.
set -euo pipefail
sed 's/\$NUMBER/$SLURM_JOB_ID/' "$1/sum.smk" >Snakefile
run() {
  snakemake --executor slurm --jobs 4 --slurm-init-seconds-before-status-checks 1 --seconds-between-status-checks 2 \
    --default-resources slurm_account=lab slurm_partition=pinfold --latency-wait 5 "$@"
}
run
[ "$(tr '\n' ' ' <sum)" = "1 2 " ]
[ "$(sort -u ids | wc -l)" = 3 ]
! run bad
# Jobs of this user's from elsewhere may be there as well.
[ "$(sacct -X -n -P -o State,JobName | grep -v "|pressure$" | tail -n 1 | cut -d "|" -f 1)" = FAILED ]
