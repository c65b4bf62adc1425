# What its user asked of pinfold is in the environment; pinfold checks it. What it says is VARIABLE=VALUE, a line each. Names
# begin with pinfold_, for the job's own variables stay as they are.
pinfold_ask() {
	pinfold_said=$(@ENTER@ --pid $$ ${pinfold_allowed:+"--allocated-mem=$pinfold_allowed"} "$@") || {
		pinfold_status=$?
		[ "$pinfold_status" -eq 5 ] && exit "$pinfold_status"
		return "$pinfold_status"
	}
}
case ${PINFOLD_ASK_CLASS:-} in
'') pinfold_class= ;;
primary | backfill) pinfold_class=--$PINFOLD_ASK_CLASS ;;
*)
	pinfold_class=
	echo 'pinfold: PINFOLD_ASK_CLASS is primary or backfill; another value counts as none' >&2
	;;
esac
pinfold_ask $pinfold_class ${PINFOLD_ASK_PRIORITY:+"--priority=$PINFOLD_ASK_PRIORITY"} \
	${PINFOLD_ASK_MEM:+"--mem=$PINFOLD_ASK_MEM"} ${PINFOLD_ASK_TMP:+"--tmp=$PINFOLD_ASK_TMP"} -- "$@"
# A value that is none (2, wrong usage) must not be a way past pinfold.
if [ "$?" -eq 2 ] && [ -n "${PINFOLD_ASK_PRIORITY:-}${PINFOLD_ASK_MEM:-}${PINFOLD_ASK_TMP:-}" ]; then
	echo 'pinfold: a wrong value in PINFOLD_ASK_PRIORITY, PINFOLD_ASK_MEM or PINFOLD_ASK_TMP: none of them counts' >&2
	pinfold_ask $pinfold_class -- "$@"
fi
while IFS= read -r pinfold_line; do
	case $pinfold_line in
	TMPDIR=* | PINFOLD_*=*) export "$pinfold_line" ;;
	esac
done <<VARIABLES
$pinfold_said
VARIABLES
unset pinfold_said pinfold_line pinfold_status pinfold_class pinfold_allowed
