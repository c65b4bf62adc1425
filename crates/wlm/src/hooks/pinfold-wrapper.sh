#!/bin/sh
# HTCondor's USER_JOB_WRAPPER: the job asks pinfold, waits until that lets it go, and is then executed. If pinfold is away the
# job runs unmanaged.
number() {
	sed -n "s/^$1 = \([0-9][0-9]*\)\$/\1/p" "$_CONDOR_JOB_AD" 2>/dev/null | head -n 1
}
PINFOLD_CONDOR_ID=$(number ClusterId).$(number ProcId)
export PINFOLD_CONDOR_ID
variables=$(@ENTER@ --pid $$) || {
	status=$?
	[ "$status" -eq 5 ] && exit "$status"
}
while IFS= read -r line; do
	case $line in
	TMPDIR=* | PINFOLD_*=*) export "$line" ;;
	esac
done <<VARIABLES
$variables
VARIABLES
unset variables line status PINFOLD_CONDOR_ID
exec "$@"
