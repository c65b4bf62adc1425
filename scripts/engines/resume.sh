# Snakemake is killed in mid-run, and its user resumes: what runs is found and cancelled, what ended does not run again, what was
# cut off does, and nothing is lost.
set -euo pipefail
cat >Snakefile <<'S'
rule all:
    input: "sum"
rule quick:
    output: "quick-{n}"
    resources: mem_mb=50, runtime=5
    shell: "echo {wildcards.n} >>quick-starts; echo {wildcards.n} >{output}"
rule slow:
    output: "slow-{n}"
    resources: mem_mb=50, runtime=5
    shell: "echo {wildcards.n} >{output}; echo $SLURM_JOB_ID >>slow-starts; until [ -e go ]; do sleep 0.2; done; echo whole >>{output}"
rule sum:
    input: expand("quick-{n}", n=[1, 2]), expand("slow-{n}", n=[1, 2])
    output: "sum"
    resources: mem_mb=50, runtime=5
    shell: "cat {input} >{output}"
S
run() {
  exec snakemake --executor slurm --jobs 4 --slurm-init-seconds-before-status-checks 1 --seconds-between-status-checks 2 \
    --default-resources slurm_account=lab slurm_partition=pinfold --latency-wait 5 "$@"
}
lines() { cat "$1" 2>/dev/null | wc -l; }
# The engine's jobs: others of this user's press on memory.
ours() { squeue --me -h -o "%A %j" | awk '$2 != "pressure" { print $1 }'; }
running() { ours | wc -l; }
(run) >first 2>&1 &
engine=$!
# Two are over, and two run on.
until [ "$(lines slow-starts)" = 2 ] && [ "$(lines quick-starts)" = 2 ] && [ "$(running)" = 2 ]; do
  kill -0 $engine 2>/dev/null || { cat first; exit 1; }
  sleep 0.2
done
kill -KILL $engine
wait $engine || true
# They do not end with their engine. A second engine would run the same beside them.
[ "$(running)" = 2 ]
[ "$(ours | sort)" = "$(sort slow-starts)" ] || { squeue --me; cat slow-starts; exit 1; }
scancel --me
until [ "$(running)" = 0 ]; do sleep 0.2; done
for job in $(cat slow-starts); do [ "$(sacct -X -n -P -o State -j "$job")" = CANCELLED ]; done
# The lock is that of the engine that was killed.
snakemake --unlock >unlock 2>&1
touch go
(run --rerun-incomplete) >again-log 2>&1 || { cat again-log; exit 1; }
[ "$(sort quick-starts | tr '\n' ' ')" = "1 2 " ] || { cat again-log quick-starts; exit 1; }
[ "$(lines slow-starts)" = 4 ] || { cat again-log slow-starts; exit 1; }
[ "$(tr '\n' ' ' <sum)" = "1 2 1 whole 2 whole " ] || { cat sum; exit 1; }
[ "$(running)" = 0 ]
