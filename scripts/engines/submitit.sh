# One function, an array of calls, one that fails, one that is cancelled, and one that is frozen while it is waited for.
exec python "$1/submitit_calls.py"
