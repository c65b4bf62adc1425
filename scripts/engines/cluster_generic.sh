# The same with commands that Snakemake is told; ends are found by marker files.
set -euo pipefail
cat >Snakefile <<'S'
rule all:
    input: expand("part-{n}", n=range(3))
rule part:
    output: "part-{n}"
    threads: 1
    resources: mem_mb=50
    shell: "echo $SLURM_JOB_ID >{output}"
S
snakemake --executor cluster-generic --jobs 4 --latency-wait 5 \
  --cluster-generic-submit-cmd "sbatch --parsable -c {threads} --mem {resources.mem_mb} -o /dev/null" \
  --cluster-generic-cancel-cmd scancel
[ "$(cat part-* | sort -u | wc -l)" = 3 ]
