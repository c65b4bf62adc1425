#!/bin/sh
# Grid Engine has ended a job: $job_id. What pinfold still has of it is ended as well.
@NAME@
@PINFOLD@ wlm over "$name"
exit 0
