#!/bin/sh
# Job submission verifier for Grid Engine (jsv(1)): what a job asks of pinfold with
#   qsub -ac pinfold_priority=N,pinfold_class=primary|backfill,pinfold_mem=SIZE,pinfold_tmp=SIZE
# is checked here and handed on to its starter. A job with another value is rejected, one that asks nothing is left as it is.
set -f

# add KEY VALUE: a line for the environment; 1: no such value.
add() {
	case $1 in
	pinfold_class) case $2 in primary | backfill) ;; *) return 1 ;; esac ;;
	pinfold_priority) case $2 in '' | *[!0-9]*) return 1 ;; esac ;;
	pinfold_mem | pinfold_tmp) case $2 in '' | *[!0-9.kKmMgGtTiIbB]*) return 1 ;; esac ;;
	*) return 1 ;;
	esac
	variable=PINFOLD_ASK_$(printf %s "${1#pinfold_}" | tr a-z A-Z)
	added="${added}ENV ADD $variable $2
"
}

verify() {
	added=
	old=$IFS
	IFS=,
	for one in $asked; do
		case $one in
		pinfold_*)
			add "${one%%=*}" "${one#*=}" || {
				IFS=$old
				echo "RESULT STATE REJECT pinfold: -ac takes pinfold_priority=N, pinfold_class=primary or backfill, pinfold_mem=SIZE, pinfold_tmp=SIZE"
				return
			}
			;;
		esac
	done
	IFS=$old
	if [ -n "$added" ]; then
		printf %s "$added"
		echo "RESULT STATE CORRECT"
	else
		echo "RESULT STATE ACCEPT"
	fi
}

asked=
while IFS= read -r line; do
	case $line in
	START)
		asked=
		echo STARTED
		;;
	'PARAM ac '*) asked=${line#PARAM ac } ;;
	BEGIN) verify ;;
	QUIT) exit 0 ;;
	esac
done
