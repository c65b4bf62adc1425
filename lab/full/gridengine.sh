# Grid Engine on the lab's full machine, and a job of its that hands its own to pinfold; read by the suite.
# shellcheck shell=sh
echo "== Grid Engine beside it"

# A cell of its own, in which all of it is on this host.
gridengine_up() {
  own=$kept/gridengine lib=/usr/lib/gridengine share=/usr/share/gridengine
  mkdir -p "$own/bin" "$own/lib" "$own/utilbin" "$own/default/common" "$own/spool/qmaster/job_scripts" "$own/spool/execd"
  for directory in bin lib utilbin; do ln -sfn $lib "$own/$directory/lx-amd64"; done
  ln -sfn $share/util "$own/util"
  export SGE_ROOT="$own" SGE_CELL=default SGE_ARCH=lx-amd64 SGE_QMASTER_PORT=17800 SGE_EXECD_PORT=17801 SGE_CLUSTER_NAME=lab
  PATH=$lib:$PATH
  # All names of this host are one.
  echo "localhost lab" >"$own/default/common/host_aliases"
  host=$(gethostname -aname)
  cat >"$own/default/common/bootstrap" <<B
admin_user              root
default_domain          none
ignore_fqdn             true
spooling_method         classic
spooling_lib            libspoolc
spooling_params         $own/default/common;$own/spool/qmaster
binary_path             $lib
qmaster_spool_dir       $own/spool/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
B
  echo "$host" >"$own/default/common/act_qmaster"
  sed -e "s#^execd_spool_dir.*#execd_spool_dir $own/spool/execd#" -e 's/^min_uid.*/min_uid 0/' -e 's/^min_gid.*/min_gid 0/' \
    -e 's#^mailer.*#mailer /bin/true#' -e 's/^load_report_time.*/load_report_time 00:00:05/' \
    -e 's/^shell_start_mode.*/shell_start_mode unix_behavior/' $share/default-configuration >configuration
  spoolinit classic libspoolc "$own/default/common;$own/spool/qmaster" init
  spooldefaults configuration configuration
  spooldefaults complexes $share/util/resources/centry
  spooldefaults usersets $share/util/resources/usersets
  spooldefaults managers root root
  gridengine_service master sge_qmaster
  until_is "its master answers" 0 sh -c 'qconf -sh >/dev/null; echo $?'
  qconf -as "$host"
  printf 'group_name @allhosts\nhostlist NONE\n' >group
  qconf -Ahgrp group
  qconf -sq | sed -e 's/^qname.*/qname all.q/' -e 's/^hostlist.*/hostlist @allhosts/' -e "s/^slots.*/slots $(nproc)/" \
    -e 's#^shell .*#shell /bin/sh#' -e 's/^load_thresholds.*/load_thresholds NONE/' >queue
  qconf -Aq queue
  qconf -ssconf | sed -e 's/^schedule_interval.*/schedule_interval 0:0:1/' -e 's/^flush_submit_sec.*/flush_submit_sec 1/' \
    -e 's/^flush_finish_sec.*/flush_finish_sec 1/' >scheduler
  qconf -Msconf scheduler
  gridengine_service execution sge_execd
  until_is "its host is there" 1 sh -c 'qconf -sel | grep -c .'
  qconf -aattr hostgroup hostlist "$host" @allhosts
}

gridengine_service() {
  systemd-run --quiet --unit "lab-gridengine-$1" -p KillMode=process -E SGE_ND=1 -E SGE_ROOT="$SGE_ROOT" \
    -E SGE_CELL=default -E SGE_ARCH=lx-amd64 -E SGE_QMASTER_PORT=17800 -E SGE_EXECD_PORT=17801 -E SGE_CLUSTER_NAME=lab \
    "$lib/$2"
}

# gridengine_job COMMAND: waits for it; what it says is in the file `out`; its exit status is that of the job.
gridengine_job() {
  rm -f out err
  printf '%s\n' '#!/bin/sh' "$*" >job.sh
  chmod 755 job.sh
  chown -R worker: .
  runuser -u worker -- env PATH="$PATH" qsub -sync y -binding linear:1 -cwd -o out -e err -v PINFOLD_SOCKET="$socket" job.sh >/dev/null
}

path=$PATH
gridengine_up 2>gridengine.err
until_is "its queue takes jobs" 1 sh -c "qstat -f | grep -c 'lx-amd64 *\$'"
mkdir -p /home/worker/gridengine
cd /home/worker/gridengine || return
if [ "$found" = 1 ]; then
  gridengine_job "pinfold run sh -c 'exit 3'"
  check "the exit status of a job that it hands over" 3 $?
  gridengine_job "$allowed; pinfold run sh -c '$allowed; cut -d / -f 1-4 /proc/self/cgroup'"
  check "and of one that looks around" 0 $?
  both=$(tr '\n' ' ' <out)
  echo "Grid Engine's PUs, the job's, and its group: $both"
  [ -s err ] && cat err
  check "it stays on the PUs that Grid Engine gave" 0 "$(outside "$(word 2 "$both")" "$(word 1 "$both")")"
  check "in a group of the service's" "0::/system.slice/pinfoldd.service/pinfold" "$(word 3 "$both")"
else
  cat "$kept/gridengine.err"
  systemctl status --no-pager --full 'lab-gridengine-*'
fi
cd "$kept" || return
systemctl stop lab-gridengine-execution lab-gridengine-master
PATH=$path
unset SGE_ROOT SGE_CELL SGE_ARCH SGE_QMASTER_PORT SGE_EXECD_PORT SGE_CLUSTER_NAME
until_is "nothing of it is left" 0 running
