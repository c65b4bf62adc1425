#!/bin/sh
# HTCondor's USER_JOB_WRAPPER: the job asks pinfold, waits until that lets it go, and is then executed. If pinfold is away the
# job runs unmanaged.
number() {
	sed -n "s/^$1 = \([0-9][0-9]*\)\$/\1/p" "$_CONDOR_JOB_AD" 2>/dev/null | head -n 1
}
PINFOLD_CONDOR_ID=$(number ClusterId).$(number ProcId)
export PINFOLD_CONDOR_ID
@ASK@
unset PINFOLD_CONDOR_ID
exec "$@"
