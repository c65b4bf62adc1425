import os
import time

from executorlib import SlurmClusterExecutor


def add(a, b):
    time.sleep(float(os.environ.get("PAUSE_S", "0")))
    return a + b


if __name__ == "__main__":
    with SlurmClusterExecutor(resource_dict={"cores": 1}, cache_directory="cache") as executor:
        assert executor.submit(add, 1, 2).result(timeout=240) == 3
