from executorlib import SlurmClusterExecutor


def add(a, b):
    return a + b


if __name__ == "__main__":
    with SlurmClusterExecutor(resource_dict={"cores": 1}, cache_directory="cache") as executor:
        assert executor.submit(add, 1, 2).result(timeout=240) == 3
