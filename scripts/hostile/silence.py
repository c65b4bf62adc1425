"""Silent connections to the metrics, questions after the abilities of the host, connections of two users."""
import urllib.request
from lib import *
with socket.socket() as s:
    s.bind(('127.0.0.1', 0))
    port = s.getsockname()[1]
p, sock, d = start('--set', 'profile.metrics=127.0.0.1:%d' % port)


def scrape():
    try:
        return bool(urllib.request.urlopen('http://127.0.0.1:%d/metrics' % port, timeout=10).read())
    except Exception:
        return False


def silent():
    until, cs = time.time() + 14, []
    while time.time() < until:
        while len(cs) < 200:
            s = socket.socket()
            s.setblocking(False)
            try:
                s.connect(('127.0.0.1', port))
            except BlockingIOError:
                pass
            cs.append(s)
        time.sleep(0.05)
        for s in list(cs):
            try:
                if s.recv(1) == b'':
                    s.close()
                    cs.remove(s)
            except BlockingIOError:
                pass
            except OSError:
                s.close()
                cs.remove(s)


saw('metrics are served', not scrape())
attack = spawn_as_nobody(silent)
time.sleep(1.5)
saw('metrics are served beside 200 silent connections', not scrape() or not scrape())
attack()


def doctor():
    c, until, n = Conn(sock), time.time() + 4, 0
    while time.time() < until:
        c.send(*['doctor'] * 20)
        for _ in range(20):
            c.recv()
            n += 1
    return n


with Meanwhile(p, sock) as m:
    print('  questions answered:', as_nobody(doctor))
m.judge()


def hold_connections():
    cs = []
    for _ in range(70000):
        try:
            cs.append(Conn(sock))
        except Exception:
            break
    time.sleep(6)
    return len(cs)


attacks = [spawn_as_nobody(hold_connections, uid=uid) for uid in (65534, 65533)]
time.sleep(4)
code, _, err, _ = cli(sock, 'status', timeout=20)
saw('root is answered while two users hold all that they can (%s)' % err, code != 0)
print('  connections:', [a() for a in attacks])
verdict()
