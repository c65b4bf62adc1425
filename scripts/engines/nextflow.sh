# Two processes of one script, the second after the first; one that fails, of which it hears. Nextflow comes from Maven's
# repository; ENGINES_NEXTFLOW is where its class path is.
set -euo pipefail
export NXF_OFFLINE=true NXF_HOME=$PWD/home NXF_ANSI_LOG=false NXF_EXECUTOR=slurm
cat >nextflow.config <<'C'
executor { queueStatInterval = '2s'; pollInterval = '1s'; exitReadTimeout = '30s' }
process { cpus = 1; memory = '100 MB'; time = '5m' }
C
cat >good.nf <<'N'
process part {
  input: val n
  output: path "part-${n}"
  script: "sleep \${PAUSE_S:-0}; echo $n \$SLURM_JOB_ID >part-${n}"
}
process total {
  publishDir '.', mode: 'copy'
  input: path parts
  output: path 'sum'
  script: "cat $parts | sort >sum"
}
workflow { channel.of(1, 2, 3) | part | collect | total }
N
cat >bad.nf <<'N'
process bad { script: "exit 3" }
workflow { bad() }
N
opens=()
for package in lang io nio net util util.concurrent.locks util.concurrent.atomic util.regex; do
  opens+=("--add-opens=java.base/java.$package=ALL-UNNAMED")
done
for package in sun.nio.ch sun.nio.fs sun.net.www.protocol.{http,https,ftp,file} jdk.internal.{misc,vm}; do
  opens+=("--add-opens=java.base/$package=ALL-UNNAMED")
done
run() { java "${opens[@]}" -cp "$(cat "$ENGINES_NEXTFLOW/classpath")" nextflow.cli.Launcher run "$1"; }
run good.nf
[ "$(cut -d' ' -f1 sum | tr '\n' ' ')" = "1 2 3 " ]
[ "$(cut -d' ' -f2 sum | sort -u | wc -l)" = 3 ]
! run bad.nf >bad.log || exit 1
grep -q "terminated with an error exit status (3)" bad.log
