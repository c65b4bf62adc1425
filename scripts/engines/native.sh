# The same by pinfold's own plugin for Snakemake: three jobs, one of which depends on the others, and one that fails.
set -euo pipefail
sed 's/\$NUMBER/$PINFOLD_JOB_ID/' "$1/sum.smk" >Snakefile
export PINFOLD_PROGRAM=$PINFOLD
snakemake --executor pinfold --jobs 4 --latency-wait 5
[ "$(tr '\n' ' ' <sum)" = "1 2 " ]
[ "$(sort -u ids | wc -l)" = 3 ]
! snakemake --executor pinfold --jobs 4 --latency-wait 5 bad
