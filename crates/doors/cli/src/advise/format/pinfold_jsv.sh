#!/bin/bash
# Memory for jobs of classes whose need is known, written by `pinfold advise --format gridengine`.
#
# A job submission verifier (jsv(1)): qsub -jsv FILE, or jsv_url in the cluster's configuration. It reads flat files and
# calls nothing. What it does not understand it accepts as it is.

# "fill": where a job asks for no memory. "lower": also where it asks for more than its class needs.
MODE=@MODE@
TABLE=${PINFOLD_TABLE:-/etc/gridengine/pinfold-advice.tsv}
# A line for each user and class that failed since (user, tab, class); pinfold-epilog.sh writes it.
FAILED=${PINFOLD_FAILED:-/var/spool/pinfold/failed.tsv}
# The resource that stands for memory, by slot.
RESOURCE=mem_free
# Requests are lowered only for jobs with this in their context (qsub -ac pinfold=lower); empty: for all.
CONSENT=pinfold=lower
# Nothing is lowered below, in MiB.
FLOOR_MIB=64

export LC_ALL=C
set -f

# Sets MIB from a size such as 4G, 512M or 1.5G; fails for what is none.
mib() {
    if [[ $1 =~ ^[0-9]{1,15}$ ]]; then
        MIB=$((10#$1 / 1048576))
        return 0
    fi
    [[ $1 =~ ^([0-9]{1,9})(\.[0-9]+)?([kKmMgGtT])$ ]] || return 1
    local number=${BASH_REMATCH[1]} unit=${BASH_REMATCH[3]} fraction=${BASH_REMATCH[2]:1:3}
    fraction=$((10#$(printf '%.3s' "${fraction}000")))
    number=$((10#$number * 1000 + fraction))
    case $unit in
        k | K) MIB=$((number / 1024 / 1000)) ;;
        m | M) MIB=$((number / 1000)) ;;
        g | G) MIB=$((number * 1024 / 1000)) ;;
        *) MIB=$((number * 1024 * 1024 / 1000)) ;;
    esac
}

# Sets ADVISED and KEEP for this job's user and class; fails where the table has none.
look_up() {
    local user class memory keep rest
    while IFS=$'\t' read -r user class memory keep rest; do
        if [[ $user == "$1" && $class == "$2" && $memory =~ ^[0-9]{1,12}$ ]]; then
            ADVISED=$((10#$memory)) KEEP=$keep
            return 0
        fi
    done <"$TABLE"
    return 1
} 2>/dev/null

has_failed() {
    local line
    [[ -r $FAILED ]] || return 1
    while IFS= read -r line; do
        [[ $line == "$1"$'\t'"$2" ]] && return 0
    done <"$FAILED"
    return 1
}

verify() {
    local slots=1 others='' asked='' part parts
    look_up "$user" "$name" || return 1
    [[ $pe_min =~ ^[0-9]{1,6}$ ]] && ((10#$pe_min > 1)) && slots=$((10#$pe_min))
    IFS=, read -r -a parts <<<"$l_hard"
    for part in "${parts[@]}"; do
        case $part in
            "$RESOURCE"=*) asked=${part#*=} ;;
            *) others+=${others:+,}$part ;;
        esac
    done
    local by_slot=$(((ADVISED + slots - 1) / slots))
    if [[ -n $asked ]]; then
        [[ $MODE == lower && $KEEP != 1 ]] || return 1
        [[ -z $CONSENT || ,$context, == *",$CONSENT,"* ]] || return 1
        has_failed "$user" "$name" && return 1
        mib "$asked" || return 1
        ((by_slot < FLOOR_MIB)) && by_slot=$FLOOR_MIB
        ((by_slot < MIB)) || return 1
    fi
    printf 'PARAM l_hard %s%s=%sM\n' "${others:+$others,}" "$RESOURCE" "$by_slot"
}

# Takes a parameter of a job. A second value of one that counts here is text behind a line break: Grid Engine tells each once.
take() {
    case $1 in
        USER) user=$2 ;;
        N) name=$2 ;;
        pe_min) pe_min=$2 ;;
        l_hard) l_hard=$2 ;;
        ac) context=$2 ;;
        *) return 0 ;;
    esac
    [[ $told != *" $1 "* ]] || odd=1
    told+="$1 "
}

# Grid Engine sends values as they are: the text behind a line break in one arrives as a line of its own, like one of the
# protocol. Such a job is accepted as it is. It has one answer, or the second one would be taken for the next job's: Grid Engine
# sends nothing between BEGIN and the answer, so a BEGIN with more behind it is text.
telling=''
while IFS= read -r line; do
    if [[ -z $telling ]]; then
        case $line in
            START)
                telling=1 odd='' told=' ' user='' name='' pe_min='' l_hard='' context=''
                echo STARTED
                ;;
            QUIT) exit 0 ;;
        esac
        continue
    fi
    if [[ $line == BEGIN ]] && ! read -r -t 0; then
        if [[ -z $odd ]] && verify; then
            echo 'RESULT STATE CORRECT'
        else
            echo 'RESULT STATE ACCEPT'
        fi
        telling=''
    elif [[ $line =~ ^PARAM\ ([A-Za-z0-9_]+)(\ (.*))?$ ]]; then
        # The rest of the line as it is, blanks and all.
        take "${BASH_REMATCH[1]}" "${BASH_REMATCH[3]-}"
    else
        odd=1
    fi
done
