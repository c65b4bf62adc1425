# What must hold of `pinfold advise --format` in real workload managers: to be sourced by wlm.sh. A request is lowered, its
# job fails, and the next one gets what it asks for.

# advice_for FORMAT DIR: three runs of a class, and the files of what they need, with the paths of this directory.
advice_for() {
  local format=$1 dir=$2 job _
  for _ in 1 2 3; do
    job=$("$pinfold" run --name advised --mem 500MiB -- \
      sh -c 'echo "$PINFOLD_JOB_ID"; head -c 20M /dev/zero | tail -c 1 >/dev/null; sleep 0.3') || return 1
    # The command returns before a slow disk has its job's end; this does not.
    "$pinfold" wait "$job" || return 1
  done
  "$pinfold" advise --name advised --format "$format" --apply lower --to "$dir" >/dev/null || return 1
  sed -i -e "s#/etc/[a-z]*/pinfold-advice.tsv#$dir/pinfold-advice.tsv#" -e "s#/var/spool/pinfold/failed.tsv#$dir/failed.tsv#" \
    -e 's/^local FRESH_S = .*/local FRESH_S = 0/' "$dir"/*.sh "$dir"/*.lua 2>/dev/null
  grep -q advised "$dir/pinfold-advice.tsv"
}

# below NUMBER MOST: it is a number, and less than that.
below() { [ "$1" -gt 0 ] 2>/dev/null && [ "$1" -lt "$2" ] || { say "  $1 is not below $2"; return 1; }; }

slurm_memory() { scontrol show job "$1" | sed -n 's/.*MinMemoryNode=\([0-9]*\)M .*/\1/p'; }
slurm_advised() {
  local job dir=$work/advice
  if ! compgen -G '/usr/lib/*/slurm-wlm/job_submit_lua.so' >/dev/null; then
    skipped+=("job_submit.lua in Slurm (apt: slurm-wlm-basic-plugins)")
    return
  fi
  say "Slurm: what pinfold advises, by job_submit.lua"
  holds "a class is known" advice_for slurm "$dir"
  cp "$dir/job_submit.lua" "$work/slurm/"
  printf 'JobSubmitPlugins=lua\nEpilogSlurmctld=%s/pinfold-epilog.sh\n' "$dir" >>"$SLURM_CONF"
  end "$slurmctld"
  slurmctld_up "$work/slurm" || { holds "slurmctld takes the plugin" false; tail -n 5 "$work/slurm/log/slurmctld.log"; return; }
  until_true sh -c '[ "$(sinfo -h -N -o %T)" = idle ]'
  job=$(batch -H -J advised --mem=500 --wrap 'exit 0')
  holds "a job that does not consent keeps its request" same "$(slurm_memory "$job")" 500
  scancel "$job"
  job=$(batch -H -J other --mem=500 --comment=pinfold --wrap 'exit 0')
  holds "so does one of an unknown class" same "$(slurm_memory "$job")" 500
  scancel "$job"
  job=$(batch -H -J advised --mem=500 --comment=pinfold --wrap 'exit 1')
  holds "a request is lowered" below "$(slurm_memory "$job")" 500
  holds "the job is released" scontrol release "$job"
  holds "it fails" until_true left "$job"
  holds "the epilog notes its class" until_true grep -q advised "$dir/failed.tsv"
  job=$(batch -H -J advised --mem=500 --comment=pinfold --wrap 'exit 0')
  holds "the next one gets what it asks for" same "$(slurm_memory "$job")" 500
  scancel "$job"
}

gridengine_memory() { qstat -j "$1" 2>/dev/null | sed -n 's/^hard resource_list: .*mem_free=\([0-9.]*\)M.*/\1/p'; }
gridengine_advised() {
  local job dir=$work/advice-ge
  say "Grid Engine: what pinfold advises, by a submission verifier"
  holds "a class is known" advice_for gridengine "$dir"
  holds "an epilog is set" qconf -mattr queue epilog "$dir/pinfold-epilog.sh" all.q >/dev/null
  advised() { qsub -terse -q all.q -o /dev/null -j y -b y -jsv "$dir/pinfold-jsv.sh" -l mem_free=500M "$@"; }
  job=$(advised -h -N advised true)
  holds "a job that does not consent keeps its request" same "$(gridengine_memory "$job")" 500
  qdel "$job" >/dev/null
  job=$(advised -h -N other -ac pinfold=lower true)
  holds "so does one of an unknown class" same "$(gridengine_memory "$job")" 500
  qdel "$job" >/dev/null
  job=$(advised -h -N advised -ac pinfold=lower false)
  holds "a request is lowered" below "$(gridengine_memory "$job")" 500
  holds "the job is released" qalter -h U "$job" >/dev/null
  holds "it fails" until_true used "$job" exit_status
  holds "the epilog notes its class" until_true grep -q advised "$dir/failed.tsv"
  job=$(advised -h -N advised -ac pinfold=lower true)
  holds "the next one gets what it asks for" same "$(gridengine_memory "$job")" 500
  qdel "$job" >/dev/null
}
