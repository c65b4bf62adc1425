#!/bin/sh
# Grid Engine suspends a job: $job_id $job_pid. One that pinfold does not have is stopped as Grid Engine would do it.
name=sge:$1
case ${SGE_TASK_ID:-undefined} in
undefined) ;;
*) name=$name.$SGE_TASK_ID ;;
esac
@PINFOLD@ suspend "$name" || kill -STOP "-$2"
