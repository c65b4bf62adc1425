import os
import time

from dask.distributed import Client
from dask_jobqueue import SLURMCluster


def main():
    with SLURMCluster(
        cores=1, processes=1, memory="300MB", walltime="00:10:00", interface="lo", scheduler_options={"interface": "lo"}
    ) as cluster:
        with Client(cluster) as client:
            cluster.scale(jobs=2)
            client.wait_for_workers(2, timeout=120)
            assert client.gather(client.map(lambda n: n * n, range(10))) == [n * n for n in range(10)]
            client.submit(time.sleep, float(os.environ.get("PAUSE_S", "0"))).result(timeout=120)
            cluster.scale(jobs=1)
            client.submit(lambda: 7).result(timeout=60)


if __name__ == "__main__":
    main()
