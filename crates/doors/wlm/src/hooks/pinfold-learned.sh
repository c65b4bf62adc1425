#!/bin/sh
# HTCondor's startd cron: says how much memory classes of jobs need (PinfoldLearned_USER_CLASS, in MiB). It needs the rights of
# an operator of pinfold; without them, or without a daemon, it says nothing, and why is in the startd's log.
@PINFOLD@ wlm learned --format htcondor
echo "-"
