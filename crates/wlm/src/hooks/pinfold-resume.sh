#!/bin/sh
# Grid Engine lets a job go on: $job_id $job_pid. One that pinfold does not have goes on as Grid Engine would do it.
name=sge:$1
case ${SGE_TASK_ID:-undefined} in
undefined) ;;
*) name=$name.$SGE_TASK_ID ;;
esac
@PINFOLD@ resume "$name" || kill -CONT "-$2"
