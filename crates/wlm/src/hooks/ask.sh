# What its user asked of pinfold is in the environment; pinfold checks it. What it says is VARIABLE=VALUE, a line each. Names
# begin with pinfold_, for the job's own variables stay as they are.
case ${PINFOLD_ASK_CLASS:-} in
'') pinfold_class= ;;
primary | backfill) pinfold_class=--$PINFOLD_ASK_CLASS ;;
*)
	pinfold_class=
	echo 'pinfold: PINFOLD_ASK_CLASS is primary or backfill; another value counts as none' >&2
	;;
esac
pinfold_said=$(@ENTER@ --pid $$ $pinfold_class ${PINFOLD_ASK_PRIORITY:+"--priority=$PINFOLD_ASK_PRIORITY"} \
	${PINFOLD_ASK_MEM:+"--mem=$PINFOLD_ASK_MEM"} ${PINFOLD_ASK_TMP:+"--tmp=$PINFOLD_ASK_TMP"}) || {
	pinfold_status=$?
	[ "$pinfold_status" -eq 5 ] && exit "$pinfold_status"
}
while IFS= read -r pinfold_line; do
	case $pinfold_line in
	TMPDIR=* | PINFOLD_*=*) export "$pinfold_line" ;;
	esac
done <<VARIABLES
$pinfold_said
VARIABLES
unset pinfold_said pinfold_line pinfold_status pinfold_class
