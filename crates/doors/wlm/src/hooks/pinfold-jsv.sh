#!/bin/bash
# Job submission verifier for Grid Engine (jsv(1)): what a job asks of pinfold with
#   qsub -ac pinfold_priority=N,pinfold_class=primary|backfill,pinfold_mem=SIZE,pinfold_tmp=SIZE
# is checked here and handed on to its starter. A job with another value is rejected, one that asks nothing is left as it is.
#
# Grid Engine sends values as they are: the text behind a line break in one arrives as a line of its own, like one of the
# protocol. Such a line may not end this program, nor have it answer twice: the second answer would be taken for the next job's.
# Grid Engine sends nothing between BEGIN and the answer, so a BEGIN with more behind it is text.
set -f
break='
'

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
	case $asked in
	*pinfold_*"$break"* | *"$break"*pinfold_*)
		echo "RESULT STATE REJECT pinfold: a line break in the text of -ac"
		return
		;;
	esac
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

# Of a job: whether it is being told, what -ac says, and whether that was the last that was told.
telling= asked= last=
while IFS= read -r line; do
	if [ -z "$telling" ]; then
		case $line in
		START)
			telling=1 asked= last=
			echo STARTED
			;;
		QUIT) exit 0 ;;
		esac
		continue
	fi
	case $line in
	'PARAM ac '*)
		asked=${asked:+$asked$break}${line#PARAM ac }
		last=ac
		;;
	'PARAM '*) last= ;;
	*)
		# A job has a name, which is told behind -ac: no other line of the protocol can be next.
		[ -z "$last" ] || asked=$asked$break$line
		if [ "$line" = BEGIN ] && ! read -r -t 0; then
			verify
			telling=
		fi
		;;
	esac
done
