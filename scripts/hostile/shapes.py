"""Jobs that wait, each of a shape of its own."""
from lib import *
p, sock, d = start()
running = [background(sock, 'sleep', '100') for _ in range(3)]


def attack(count=11000):
    c = Conn(sock)
    for i in range(count):
        if number(c.ask({'submit': {'ticket': i, 'spec': spec(tmp_bytes=((i % 11000) + 1) << 20), 'pid': None}})) is None:
            break
    return i + 1


with Meanwhile(p, sock) as m:
    print('  asked for:', as_nobody(attack))
m.judge(mib=128)
for job in running:
    cli(sock, 'cancel', '--signal', 'KILL', str(job))
verdict()
