# Jobs that end well, that fail, and that are cancelled.
exec python "$1/psij_jobs.py"
