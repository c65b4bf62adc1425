# A block of workers, started by srun within a job.
exec python "$1/parsl_block.py"
