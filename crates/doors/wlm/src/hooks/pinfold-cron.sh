#!/bin/sh
# HTCondor's startd cron: says how much more the host takes. Without a daemon it says nothing, and slots stay open.
@PINFOLD@ wlm capacity --format htcondor 2>/dev/null
echo "-"
