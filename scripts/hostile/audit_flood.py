"""Words without end about one's own job, and names without end for a set."""
from lib import *
p, sock, d = start()


def attack():
    c = Conn(sock)
    job = number(c.ask({'submit': {'ticket': 1, 'spec': spec(held=True), 'pid': None}}))
    verbs = [{'priority': 5}, {'priority': 6}, 'release', 'hold', {'memory': 1 << 20}]
    b = b''.join(Conn.frame({'control': {'job': job, 'verb': verbs[i % len(verbs)]}}) for i in range(100))
    until, n = time.time() + 10, 0
    while time.time() < until:
        c.s.sendall(b)
        for _ in range(100):
            c.recv()
            n += 1
    return n


def names():
    c = Conn(sock)
    return str(c.ask({'set_aside': dict(name=None, cpus='77', cores=None, memory_bytes=None, shared=False,
                                        housekeeping=False, users=['nobody'] * 25000, hold_us=1)}))[:100]


with Meanwhile(p, sock) as m:
    print('  words heard:', as_nobody(attack))
    print('  names:', as_nobody(names))
m.judge()
size = sum(os.path.getsize(os.path.join(d, 'state', f)) for f in os.listdir(d + '/state') if f.startswith('audit'))
saw('the audit has %d KiB' % (size >> 10), size > 1 << 20)
saw('the audit holds', cli(sock, 'audit', '--verify')[0] != 0)
verdict()
