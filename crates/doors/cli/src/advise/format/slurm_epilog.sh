#!/bin/sh
# EpilogSlurmctld: after one failure of a job of a class that pinfold advises, its jobs get again what they ask for.
# Written by `pinfold advise --format slurm`. slurmctld's user needs the right to write FAILED.
TABLE=${PINFOLD_TABLE:-/etc/slurm/pinfold-advice.tsv}
FAILED=${PINFOLD_FAILED:-/var/spool/pinfold/failed.tsv}

[ "${SLURM_JOB_EXIT_CODE2:-0:0}" != 0:0 ] || exit 0
tab=$(printf '\t')
case "$SLURM_JOB_USER$SLURM_JOB_NAME" in
    '' | *"$tab"* | *'
'*) exit 0 ;;
esac
line="$SLURM_JOB_USER$tab$SLURM_JOB_NAME"
# Only classes that the table has, and each once.
cut -f1,2 "$TABLE" 2>/dev/null | grep -qxF -e "$line" || exit 0
grep -qxF -e "$line" "$FAILED" 2>/dev/null || printf '%s\n' "$line" >>"$FAILED"
