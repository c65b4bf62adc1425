# Programs of several ranks within a job: by Open MPI's mpirun and by MPICH's, whichever are here, and by srun with the
# variables that launchers of machine learning make of Slurm's.
set -euo pipefail
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
said() { sbatch --wait -n 2 -o said --wrap "$1" >/dev/null || { cat said; exit 1; }; }
for mpirun in mpirun.openmpi mpirun.mpich; do
  command -v "$mpirun" >/dev/null || { echo "$mpirun: skipped: it is not here"; continue; }
  # The number of ranks comes from the allocation where none is named.
  for count in "-n 2" ""; do
    said "$mpirun $count sh -c 'echo rank \${OMPI_COMM_WORLD_RANK-\$PMI_RANK} of \${OMPI_COMM_WORLD_SIZE-\$PMI_SIZE}'"
    [ "$(grep ^rank said | sort | tr '\n' ' ')" = "rank 0 of 2 rank 1 of 2 " ] || { echo "$mpirun $count"; cat said; exit 1; }
  done
  # Ranks that send each other something, by a binding that has to be told which MPI this is.
  said "MPI4PY_MPIABI=${mpirun#mpirun.} $mpirun -n 2 python $1/mpi_ranks.py"
  [ "$(grep ^sum said | sort | tr '\n' ' ')" = "sum 1 of 2 sum 1 of 2 " ] || grep -q ^skipped said || { echo "$mpirun"; cat said; exit 1; }
  "${PINFOLD:-pinfold}" run --cores 2 -- "$mpirun" -n 2 sh -c 'echo $PINFOLD_JOB_ID' >said
  [ "$(sort -u said | wc -l) $(wc -l <said)" = "1 2" ]
  echo "$mpirun: passed"
done
! sbatch --wait -n 2 -o said --wrap "srun --mpi=pmix true"
grep -q "call .mpirun" said
said "sleep ${PAUSE_S:-0}; srun -n 2 python $1/ranks.py"
[ "$(sort said | tr '\n' ' ')" = "0 heard 1 of 2 1 was heard " ] || { cat said; exit 1; }
