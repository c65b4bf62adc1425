"""A process number that is named as a job's child is used again by root before the job starts."""
from lib import *
p, sock, d = start()
r1, w1 = os.pipe()
r2, w2 = os.pipe()


def attack(count=60):
    c, kids = Conn(sock), {}
    for ticket in range(count):
        k = os.fork()
        if k == 0:
            while True:
                time.sleep(1000)
        kids[k] = number(c.ask({'submit': {'ticket': ticket, 'spec': spec(held=True, name='steal'), 'pid': k}}))
    low = min(kids)
    for k in kids:
        os.kill(k, 9)
        os.waitpid(k, 0)
    # The kernel hands numbers out in turn: go round until the next ones are those.
    for n in range(200000):
        k = os.fork()
        if k == 0:
            os._exit(0)
        os.waitpid(k, 0)
        if n > 100 and low - 40 <= k < low:
            break
    os.write(w1, json.dumps(kids).encode() + b'\n')
    victim = int(os.read(r2, 64))
    c.send({'control': {'job': kids[victim], 'verb': 'release'}})
    heard, until = [], time.time() + 3
    while time.time() < until:
        try:
            heard.append(c.recv(1))
        except Exception:
            break
    os.write(w1, b'\n')
    os.read(r2, 64)
    c.send({'control': {'job': kids[victim], 'verb': {'cancel': {'signal': 9}}}})
    time.sleep(1)


if int(open('/proc/sys/kernel/pid_max').read()) > 100000:
    print('  skipped: process numbers come round after', open('/proc/sys/kernel/pid_max').read().strip())
    verdict()
done = spawn_as_nobody(attack)
kids = {int(k): v for k, v in json.loads(os.read(r1, 1 << 20)).items()}
victim, started = None, []
for _ in range(400):
    q = subprocess.Popen(['/bin/sleep', '600'])
    started.append(q)
    if q.pid in kids:
        victim = q
        break
if victim is None:
    print('  skipped: no process of root\'s came to have one of the numbers')
    os.kill(done.pid, 9)
else:
    groups = lambda: open('/proc/%d/cgroup' % victim.pid).read()
    before = groups()
    os.write(w2, str(victim.pid).encode())
    os.read(r1, 65536)
    saw('root\'s process is in the groups where it was', groups() != before)
    os.write(w2, b'k')
    time.sleep(1.5)
    saw('root\'s process lives', victim.poll() is not None)
    done()
for q in started:
    if q.poll() is None:
        q.kill()
    q.wait()
verdict()
