#!/bin/sh
# Starts a job of a workload manager's: it asks pinfold, waits until that lets it go, and then executes the job. If pinfold is
# away the job runs unmanaged. The job is known by its environment (`pinfold wlm --help`).
@ASK@
# Of Grid Engine a starter takes the place of the shell that reads the script, and does as its shepherd would (queue_conf(5),
# starter_method; qsub(1), -b and -shell).
told() {
	sed -n "s/^$1=//p" "${SGE_JOB_SPOOL_DIR:-/nonexistent}/config" 2>/dev/null
}
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
