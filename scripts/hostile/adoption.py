"""Many processes are adopted one after the other, and stay held."""
from lib import *
p, sock, d = start()


def attack(count=400):
    kids = []
    for _ in range(count):
        k = os.fork()
        if k == 0:
            time.sleep(300)
            os._exit(0)
        kids.append(k)
    c, t, took = Conn(sock), 0, []
    for k in kids:
        t = time.time()
        c.ask({'adopt': {'which': {'process': k}, 'spec': spec(name='', command=[], held=True)}})
        took.append(time.time() - t)
    for k in kids:
        os.kill(k, 9)
        os.waitpid(k, 0)
    return [sum(took[:40]) / 40, sum(took[-40:]) / 40]


with Meanwhile(p, sock) as m:
    first, last = as_nobody(attack)
m.judge()
saw('the first adoptions took %.1f ms each, the last %.1f ms' % (first * 1e3, last * 1e3), last > 10 * first + 0.02)
verdict()
