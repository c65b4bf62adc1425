#!/bin/sh
# epilog of a queue: after one failure of a job of a class that pinfold advises, its jobs get again what they ask for.
# Written by `pinfold advise --format gridengine`. The user that it runs as needs the right to write FAILED, which lies
# where the verifier reads it.
TABLE=${PINFOLD_TABLE:-/etc/gridengine/pinfold-advice.tsv}
FAILED=${PINFOLD_FAILED:-/var/spool/pinfold/failed.tsv}

# How the job ended stands in its spool directory.
status=$(sed -n 's/^exit_status=//p' "$SGE_JOB_SPOOL_DIR/usage" 2>/dev/null)
[ "${status:-0}" != 0 ] || exit 0
user=$(sed -n 's/^job_owner=//p' "$SGE_JOB_SPOOL_DIR/config" 2>/dev/null)
tab=$(printf '\t')
case "${user:-$USER}$JOB_NAME" in
    '' | *"$tab"* | *'
'*) exit 0 ;;
esac
line="${user:-$USER}$tab$JOB_NAME"
# Only classes that the table has, and each once.
cut -f1,2 "$TABLE" 2>/dev/null | grep -qxF -e "$line" || exit 0
grep -qxF -e "$line" "$FAILED" 2>/dev/null || printf '%s\n' "$line" >>"$FAILED"
exit 0
