#!/bin/sh
# Grid Engine ends a job: $job_id $job_pid. pinfold knows also what left the job's process group; the group ends in any case.
@NAME@
@PINFOLD@ cancel --signal KILL "$name" 2>/dev/null
kill -KILL "-$2"
