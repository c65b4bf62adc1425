# The same by pinfold's own plugin for Snakemake: three jobs, one of which depends on the others, and one that fails.
set -euo pipefail
cat >Snakefile <<'S'
rule all:
    input: "sum"
rule part:
    output: "part-{n}"
    resources: mem_mb=50, runtime=5
    shell: "echo {wildcards.n} >{output}; echo $PINFOLD_JOB_ID >>ids"
rule sum:
    input: "part-1", "part-2"
    output: "sum"
    resources: mem_mb=50, runtime=5
    shell: "cat {input} >{output}; echo $PINFOLD_JOB_ID >>ids"
rule bad:
    output: "bad"
    shell: "exit 3"
S
export PINFOLD_PROGRAM=$PINFOLD
snakemake --executor pinfold --jobs 4 --latency-wait 5
[ "$(tr '\n' ' ' <sum)" = "1 2 " ]
[ "$(sort -u ids | wc -l)" = 3 ]
! snakemake --executor pinfold --jobs 4 --latency-wait 5 bad
