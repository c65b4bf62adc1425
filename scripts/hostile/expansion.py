"""Names of array members that stand for thousands each, in one frame and in six at once."""
from lib import *
p, sock, d = start()


def one(count=20000):
    return list(Conn(sock).ask({'submit': {'ticket': 1, 'spec': spec(after=['1_[0-9999]'] * count), 'pid': None}}, 300))


def several(count=20000, connections=6):
    b = Conn.frame({'submit': {'ticket': 1, 'spec': spec(after=['1_[0-9999]'] * count), 'pid': None}})
    cs = [Conn(sock) for _ in range(connections)]
    # All but the last byte first, so that the frames end together.
    for c in cs:
        c.s.settimeout(20)
        try:
            c.s.sendall(b[:-1])
        except OSError:
            pass
    for c in cs:
        try:
            c.s.sendall(b[-1:])
        except OSError:
            pass
    for c in cs:
        try:
            c.recv(300)
        except (EOFError, OSError):
            pass


with Meanwhile(p, sock) as m:
    print('  one frame:', as_nobody(one))
    as_nobody(several)
m.judge()
verdict()
