# Three jobs, one of which depends on the others, and one that fails. NUMBER is the variable with a job's number.
rule all:
    input: "sum"
rule part:
    output: "part-{n}"
    resources: mem_mb=50, runtime=5
    shell: "echo {wildcards.n} >{output}; echo $NUMBER >>ids"
rule sum:
    input: "part-1", "part-2"
    output: "sum"
    resources: mem_mb=50, runtime=5
    shell: "cat {input} >{output}; echo $NUMBER >>ids"
rule bad:
    output: "bad"
    shell: "exit 3"
