"""Keepers that live and do not come back: slots are free once their commands ended."""
from lib import *
p, sock, d = start()
c, kids = Conn(sock), []
for i in range(3):
    k = os.fork()
    if k == 0:
        time.sleep(6)
        os._exit(0)
    kids.append(k)
    c.send({'submit': {'ticket': i, 'spec': spec(name='old'), 'pid': k}})
time.sleep(1.5)
crash(p)
p, sock, d = start()
for k in kids:
    os.waitpid(k, 0)
until = time.time() + 30
while time.time() < until and any(j['state'] == 'running' for j in jobs(sock).values()):
    time.sleep(0.2)
left = [j for j in jobs(sock).values() if j['state'] == 'running']
saw('%d jobs are taken for running whose commands ended' % len(left), bool(left))
code = cli(sock, 'run', '--ttl', '10s', '--', 'true', timeout=30)[0]
saw('a new job runs', code != 0)
c.close()
verdict()
