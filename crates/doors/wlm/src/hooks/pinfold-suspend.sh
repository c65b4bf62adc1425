#!/bin/sh
# Grid Engine suspends a job: $job_id $job_pid. One that pinfold does not have is stopped as Grid Engine would do it.
@NAME@
@PINFOLD@ suspend "$name" || kill -STOP "-$2"
