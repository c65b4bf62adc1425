# Three jobs, one of which depends on the others, and one that fails. NUMBER is the variable with a job's number. Two last for
# PAUSE_S seconds: while memory is short they are to be there long enough to be frozen.
rule all:
    input: "sum"
rule part:
    output: "part-{n}"
    resources: mem_mb=50, runtime=5
    shell: "sleep ${{PAUSE_S:-0}}; echo {wildcards.n} >{output}; echo $NUMBER >>ids"
rule sum:
    input: "part-1", "part-2"
    output: "sum"
    resources: mem_mb=50, runtime=5
    shell: "cat {input} >{output}; echo $NUMBER >>ids"
rule bad:
    output: "bad"
    shell: "exit 3"
