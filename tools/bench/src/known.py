"""Programs of which it is known what they use: python3 known.py CASE SIZE FILE

They write to FILE, as JSON, the memory that they held at most and in the mean (anonymous and shared, each page once,
by the kernel's walk of their page tables and by what they allocated themselves), the processor time of all their
processes, and who these were.
"""
import json
import mmap
import os
import resource
import sys
import time

MIB = 1 << 20
case, size, path = sys.argv[1], float(sys.argv[2]), sys.argv[3]
began = time.monotonic()
pids = [os.getpid()]
marks = []


def held():
    """Bytes of all our processes, by walks of their page tables."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as text:
            total += sum(int(line.split()[1]) for line in text if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    return total * 1024


def mark(bytes_now):
    marks.append((time.monotonic(), bytes_now))


def private(mib):
    """Memory of our own, there at once."""
    populate = getattr(mmap, "MAP_POPULATE", 0x8000)
    return mmap.mmap(-1, mib * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | populate)


def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def steady():
    data = private(256)
    mark(held())
    burn(0.4)
    time.sleep(size)
    data.close()


def spike():
    time.sleep(size / 2)
    base = held()
    mark(base)
    data = private(256)
    mark(base + 256 * MIB)
    time.sleep(0.05)
    data.close()
    mark(base)
    time.sleep(size / 2)


def shared():
    data = mmap.mmap(-1, 256 * MIB, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
    block = b"x" * MIB
    for at in range(0, len(data), MIB):
        data[at:at + MIB] = block
    mark(held())
    ready, tell = os.pipe()
    wait, go = os.pipe()
    for _ in range(7):
        pid = os.fork()
        if pid == 0:
            os.close(go)
            sum(data[at] for at in range(0, len(data), mmap.PAGESIZE))
            os.write(tell, b".")
            os.read(wait, 1)
            os._exit(0)
        pids.append(pid)
    for _ in pids[1:]:
        os.read(ready, 1)
    mark(held())
    time.sleep(size)
    mark(held())
    os.close(go)
    for pid in pids[1:]:
        os.waitpid(pid, 0)


def cache():
    mark(held())
    name = path + ".data"
    block = b"x" * MIB
    with open(name, "wb") as file:
        for _ in range(256):
            file.write(block)
    with open(name, "rb") as file:
        while file.read(MIB):
            pass
    time.sleep(size)
    mark(held())
    os.remove(name)


def short():
    for _ in range(int(size)):
        os.waitpid(os.posix_spawn("/bin/true", ["/bin/true"], {}), 0)


mark(held())
{"steady": steady, "spike": spike, "shared": shared, "cache": cache, "short": short}[case]()
mark(0)
area = sum(before[1] * (after[0] - before[0]) for before, after in zip(marks, marks[1:]))
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
cpu = [one.ru_utime + one.ru_stime for one in used]
with open(path, "w") as out:
    peak = max(bytes_now for _, bytes_now in marks)
    json.dump({"memory_peak_bytes": peak, "memory_mean_bytes": area / (time.monotonic() - began),
               "cpu_s": sum(cpu), "children_cpu_s": cpu[1], "pids": pids}, out)
