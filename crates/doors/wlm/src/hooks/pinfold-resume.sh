#!/bin/sh
# Grid Engine lets a job go on: $job_id $job_pid. One that pinfold does not have goes on as Grid Engine would do it.
@NAME@
@PINFOLD@ resume "$name" || kill -CONT "-$2"
