name=sge:$1
case ${SGE_TASK_ID:-undefined} in
undefined) ;;
*) name=$name.$SGE_TASK_ID ;;
esac
