"""Names of members of a long array: as `--after` of one job, and as questions whose answers are not read."""
from lib import *
p, sock, d = start()


def array(members):
    c, first = Conn(sock), None
    for i in range(members):
        c.send({'submit': {'ticket': i, 'spec': spec(held=True, array=dict(index=i)), 'pid': None}})
        if i % 100 == 99:
            for _ in range(100):
                first = first or number(c.recv())
    return c, first


def after():
    c, first = array(2000)
    return list(c.ask({'submit': {'ticket': 99999, 'spec': spec(held=True, after=['%d_0' % first] * 4096), 'pid': None}}, 300))


def unread(connections=8):
    keep, first = array(9000)
    cs = []
    for _ in range(connections):
        cs.append(Conn(sock))
    b = Conn.frame({'members': {'names': ['%d_[0-9999]' % first] * 10}})
    for c in cs:
        c.s.setblocking(False)
    until, sent = time.time() + 15, 0
    while time.time() < until:
        for c in cs:
            try:
                c.s.send(b)
                sent += 1
            except OSError:
                pass
        time.sleep(0.005)
    return sent


with Meanwhile(p, sock) as m:
    print('  after:', as_nobody(after))
    print('  questions sent:', as_nobody(unread))
# Eleven thousand waiting jobs take some room of their own.
m.judge(mib=160)
verdict()
