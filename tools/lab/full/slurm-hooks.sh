# Jobs that the lab's Slurm dispatches and pinfold manages in place, by the plugin; read by slurm.sh while Slurm is up.
# shellcheck shell=sh
echo "== pinfold manages Slurm's jobs"

batch() { sbatch --parsable --ntasks 1 --mem 64 --no-requeue --output "$kept/batch.%j" "$@"; }
in_slurm() { squeue --noheader --states all --jobs "$1" --format %T; }
in_pinfold() { pinfold status --columns state "slurm:$1" | sed -n 2p | tr -d ' '; }
how_many() { pinfold status --state "$1" --columns job | sed 1d | wc -l; }
pid_of() { pinfold status --columns pids "slurm:$1" | sed -n 2p | tr -d ' ' | cut -d , -f 1; }
process_state() { cut -d ' ' -f 3 "/proc/$1/stat" 2>/dev/null || echo gone; }
# What Slurm calls the end of a job that goes beyond its memory.
beyond_memory() {
  job=$(batch --wrap 'exec perl -e "\$held = q(x) x (300 << 20); sleep 3000"')
  until_is "a job that goes beyond Slurm's memory is over in Slurm" OUT_OF_MEMORY in_slurm "$job"
}

hooks_installed() {
  echo "Slurm is $(sinfo --version)"
  # As the next daemon is to have it, too.
  cp /etc/pinfold/pinfold.toml before.toml
  pinfold config set slots.factor=1
  pinfold config save
  beyond_memory
  pinfold admin wlm install slurm --apply >install.log 2>&1
  check "the plugin is built and its line added" 0 $?
  [ -e /usr/lib/pinfold/wlm/slurm/pinfold_spank.so ] || cat install.log
  systemctl restart slurmd
  until_is "its node is there again" idle sinfo --noheader --format %T
  check "the hooks are found" 1 "$(pinfold admin wlm detect | grep -c 'Slurm .*its jobs come to pinfold')"
  scontrol update PartitionName=all OverSubscribe=FORCE:2
}

hooks_wait() {
  one=$(batch --wrap 'sleep 100000') two=$(batch --wrap 'sleep 100000')
  until_is "two jobs run, one a core" 2 how_many running
  three=$(batch --wrap "echo its turn came")
  until_is "one waits" queued in_pinfold "$three"
  check "Slurm has it as running" RUNNING "$(in_slurm "$three")"
  pid=$(pid_of "$one")
  group=$(cut -d : -f 3 "/proc/$pid/cgroup")
  echo "the group of Slurm's job: $group"
  check "a job stays in the group that Slurm made" 1 "$(echo "$group" | grep -c "slurmstepd.*/job_$one/step_batch/")"
  check "with Slurm's limit" 67108864 "$(cat "/sys/fs/cgroup${group%/step_batch/*}/memory.max")"
  pinfold suspend "slurm:$one"
  until_is "it is suspended by its name" frozen in_pinfold "$one"
  until_is "its process is stopped" T process_state "$pid"
  until_is "the one that waited has its turn" COMPLETED in_slurm "$three"
  check "and ran" 1 "$(grep -c 'its turn came' "$kept/batch.$three")"

  # What waits and what is frozen survives the daemon.
  four=$(batch --wrap "sleep 100000")
  until_is "another one has its slot" running in_pinfold "$four"
  five=$(batch --wrap "echo its turn came")
  until_is "and another one waits" queued in_pinfold "$five"
  replaced "killed while Slurm's jobs wait, run and are suspended" systemctl kill --signal=KILL --kill-whom=main pinfoldd
  until_is "the one that waited still waits" queued in_pinfold "$five"
  check "the suspended one is still suspended" frozen "$(in_pinfold "$one")"
  check "the others run" 2 "$(how_many running)"
  until_is "it is stopped still" T process_state "$pid"

  scancel "$one"
  until_is "a suspended job that Slurm cancels is over there" CANCELLED in_slurm "$one"
  until_is "its process is gone" gone process_state "$pid"
  until_is "it is over in pinfold" exited in_pinfold "$one"
  scancel "$two" "$four"
  until_is "what waited has its turn" COMPLETED in_slurm "$five"
  until_is "no job is left" 0 how_many running
}

hooks_limits() {
  beyond_memory
  check "pinfold knew it" exited "$(in_pinfold "$job")"
  one=$(batch --wrap 'sleep 100000')
  until_is "a job runs" running in_pinfold "$one"
  scontrol suspend "$one"
  until_is "Slurm suspends it" SUSPENDED in_slurm "$one"
  scontrol resume "$one"
  until_is "and resumes it" RUNNING in_slurm "$one"
  check "pinfold has it" running "$(in_pinfold "$one")"
  pinfold admin drain
  pinfold admin wlm sync slurm --node lab
  check "the host is drained, and so is the node in Slurm" 1 "$(sinfo --noheader --format %T | grep -c '^drain')"
  pinfold admin undrain
  pinfold admin wlm sync slurm --node lab
  check "the node is taken back" 0 "$(sinfo --noheader --format %T | grep -c '^drain')"
  scancel "$one"
  until_is "the job is over in pinfold" exited in_pinfold "$one"
}

hooks_removed() {
  pinfold admin wlm uninstall slurm >install.log 2>&1
  check "the hooks are removed" 0 $?
  check "with their lines" 0 "$(grep -c pinfold /etc/slurm/plugstack.conf 2>/dev/null)"
  systemctl restart slurmd
  until_is "its node is there again" idle sinfo --noheader --format %T
}

hooks_installed
hooks_wait
hooks_limits
hooks_removed
cat before.toml >/etc/pinfold/pinfold.toml
pinfold config set slots.factor=1.5
