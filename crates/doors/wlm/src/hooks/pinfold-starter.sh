#!/bin/sh
# Starts a job of a workload manager's: it asks pinfold, waits until that lets it go, and then executes the job. If pinfold is
# away the job runs unmanaged. The job is known by its environment (`pinfold wlm --help`).
told() {
	sed -n "/^$1=/{s///p;q;}" "${SGE_JOB_SPOOL_DIR:-/nonexistent}/config" 2>/dev/null
}
# What h_vmem allows to a job of Grid Engine here, in bytes, is the memory that it asks for: of each slot, unless the request is
# for the job as a whole. K, M and G are binary, k, m and g decimal (sge_types(1)).
allowed() {
	told h_vmem | awk -v slots="$(told host_slots)" -v whole="$(told h_vmem_is_consumable_job)" '
		/^[0-9]+(\.[0-9]+)?[kKmMgG]?$/ {
			power = index("kmg", tolower(substr($0, length($0))))
			base = $0 ~ /[kmg]$/ ? 1000 : 1024
			if (whole == 1 || slots < 1) slots = 1
			bytes = $0 * base ^ power * slots
			if (bytes >= 1 && bytes < 2 ^ 52) printf "%.0fB", bytes
		}'
}
if [ -n "${SGE_JOB_SPOOL_DIR:-}" ]; then
	pinfold_allowed=$(allowed)
fi
@ASK@
# Of Grid Engine a starter takes the place of the shell that reads the script, and does as its shepherd would (queue_conf(5),
# starter_method; qsub(1), -b and -shell).
if [ -z "${SGE_STARTER_SHELL_PATH:-}" ]; then
	exec "$@"
elif [ "$(told handle_as_binary)" = 1 ]; then
	[ "$(told no_shell)" = 1 ] && exec "$@"
	set -- -c "$*"
elif [ "${SGE_STARTER_SHELL_START_MODE:-}" = unix_behavior ]; then
	exec "$@"
fi
if [ "${SGE_STARTER_USE_LOGIN_SHELL:-}" = true ]; then
	case ${SGE_STARTER_SHELL_PATH##*/} in
	sh | bash | dash | ksh | zsh) set -- -l "$@" ;;
	esac
fi
exec "$SGE_STARTER_SHELL_PATH" "$@"
