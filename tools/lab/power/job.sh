#!/bin/sh
# A job: says that it began, and for which time, and ends with the status that it is told.
# Usage: job.sh once|again STATUS
. /lab/power/marks.sh
place=0
while [ "$place" -lt 5 ] && [ -n "$(marked "$PINFOLD_JOB_ID" "$place")" ]; do place=$((place + 1)); done
mark "$PINFOLD_JOB_ID" "$place" "began: $PINFOLD_JOB_ID ${PINFOLD_RESTARTS:-0} $1"
exit "$2"
