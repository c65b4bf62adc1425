# Workers that come and go.
exec python "$1/dask_workers.py"
