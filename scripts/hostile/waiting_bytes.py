"""Waiting jobs of one user that are as large as may be."""
from lib import *
p, sock, d = start()


def attack(count=3000):
    b = Conn.frame({'submit': {'ticket': 1, 'pid': None, 'spec': spec(
        held=True, command=['z' * 1000] * 38, layout=dict(options=[['--x%d' % i, 'y' * 1000] for i in range(125)]))}})
    c, said = Conn(sock), None
    for i in range(count):
        c.s.sendall(b)
        reply = c.recv()
        if number(reply) is None:
            return [i, json.dumps(reply)[:200]]
    return [count, 'all were taken']


with Meanwhile(p, sock) as m:
    print('  taken:', as_nobody(attack))
m.judge(mib=128)
size = sum(os.path.getsize(os.path.join(d, 'state', f)) for f in os.listdir(d + '/state') if f.startswith('pinfold.db'))
saw('the store has %d MiB' % (size >> 20), size > 128 << 20)
saw('root\'s job is taken', background(sock, 'true') is None)
verdict()
