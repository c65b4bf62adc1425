# Functions as jobs whose results come by files.
exec python "$1/executorlib_calls.py"
