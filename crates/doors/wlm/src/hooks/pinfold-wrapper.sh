#!/bin/sh
# HTCondor's USER_JOB_WRAPPER: the job asks pinfold, waits until that lets it go, and is then executed. If pinfold is away the
# job runs unmanaged.
number() {
	sed -n "s/^$1 = \([0-9][0-9]*\)\$/\1/p" "$_CONDOR_JOB_AD" 2>/dev/null | head -n 1
}
# A string of the ad, without its quotes.
text() {
	sed -n "s/^$1 = \"\(.*\)\"\$/\1/p" "$_CONDOR_JOB_AD" 2>/dev/null | sed -e 's/\\\(.\)/\1/g' -e 1q
}
PINFOLD_CONDOR_ID=$(number ClusterId).$(number ProcId)
PINFOLD_CONDOR_NAME=$(text JobBatchName)
if [ -z "$PINFOLD_CONDOR_NAME" ]; then
	PINFOLD_CONDOR_NAME=$(text Cmd)
	PINFOLD_CONDOR_NAME=${PINFOLD_CONDOR_NAME##*/}
fi
export PINFOLD_CONDOR_ID PINFOLD_CONDOR_NAME
@ASK@
unset PINFOLD_CONDOR_ID PINFOLD_CONDOR_NAME
exec "$@"
