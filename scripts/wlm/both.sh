# What must hold while Slurm and Grid Engine send jobs to the same host: to be sourced by wlm.sh.

two_managers() {
  local one two three four
  say "Slurm and Grid Engine at once"
  holds "the hooks of Slurm are installed" "$pinfold" wlm install slurm --to "$work/hooks" --apply >/dev/null
  holds "those of Grid Engine, too" "$pinfold" wlm install gridengine --to "$work/hooks-ge" >"$work/lines"
  holds "the printed commands are taken" gridengine_hooked "$work/lines" all.q
  holds "both are found" until_true sh -c "'$pinfold' wlm detect | grep -c 'its jobs come to pinfold' | grep -qx 2"
  one=$(batch --wrap 'sleep 3000')
  holds "a job of Slurm's runs" until_true is "slurm:$one" running
  two=$(grid 'sleep 3000')
  holds "one of Grid Engine's runs beside it" until_true is "sge:$two" running
  three=$(batch --wrap 'sleep 3000')
  holds "the next one of Slurm's waits, as both share the slots" until_true is "slurm:$three" queued
  four=$(grid 'sleep 3000')
  holds "so does the next one of Grid Engine's" until_true is "sge:$four" queued
  holds "no more than two run" count running 2
  holds "one is suspended by its name in Grid Engine" "$pinfold" suspend "sge:$two"
  holds "its slot goes to the first that waited" until_true is "slurm:$three" running
  holds "the other one still waits" is "sge:$four" queued
  holds "what Slurm cancels" scancel "$three"
  holds "makes room for Grid Engine" until_true is "sge:$four" running
  holds "Slurm's other job is as it was" is "slurm:$one" running
  holds "the suspended one is as it was" is "sge:$two" frozen
  scancel "$one"
  qdel "$two" "$four" >/dev/null
  for one in "slurm:$one" "sge:$two" "sge:$four"; do holds "$one is over" until_true is "$one" exited; done
  holds "Slurm's hooks are removed" "$pinfold" wlm uninstall slurm --to "$work/hooks" >/dev/null
  "$pinfold" wlm uninstall gridengine --to "$work/hooks-ge" 2>"$work/uninstall"
  holds "what names Grid Engine's is taken back" gridengine_unhooked "$work/uninstall"
  holds "they are removed, too" until_true "$pinfold" wlm uninstall gridengine --to "$work/hooks-ge"
}
