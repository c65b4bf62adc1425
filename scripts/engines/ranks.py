"""A rank that meets the others as torch's and Lightning's do: by what Slurm's variables say of the job."""

import os
import socket
import subprocess
import time

rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
assert int(os.environ["SLURM_LOCALID"]) == rank and os.environ["SLURM_NODEID"] == "0"
hosts = subprocess.run(["scontrol", "show", "hostnames"], check=True, capture_output=True, text=True).stdout.split()
assert len(hosts) == int(os.environ["SLURM_JOB_NUM_NODES"]) == 1
address = hosts[0], 20000 + int(os.environ["SLURM_JOB_ID"]) % 20000
if rank == 0:
    with socket.create_server(address) as server:
        heard = []
        while len(heard) < size - 1:
            with server.accept()[0] as one:
                heard.append(one.recv(16).decode())
    told = f"0 heard {' '.join(sorted(heard))} of {size}\n"
else:
    deadline = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection(address) as one:
                one.sendall(str(rank).encode())
            break
        except OSError:
            assert time.monotonic() < deadline, address
            time.sleep(0.1)
    told = f"{rank} was heard\n"
# At once, also where Python does not buffer: the ranks' lines come together in one file.
os.write(1, told.encode())
