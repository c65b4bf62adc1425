"""A job that never started is presented as running, or as ended with figures of the client's own."""
from lib import *
open(BASE + '/deny', 'w').write('#!/bin/sh\necho called $1 >>%s/called\n[ $1 = after ]\n' % BASE)
os.chmod(BASE + '/deny', 0o755)
p, sock, d = start('--set', 'modules.site=["%s/deny"]' % BASE)
cli(sock, 'drain')


def running():
    c, k = Conn(sock), os.fork()
    if k == 0:
        time.sleep(30)
        os._exit(0)
    job = number(c.ask({'submit': {'ticket': 1, 'spec': spec(cores=2, held=True, **{'class': 'exclusive'}), 'pid': None}}))
    if job is None:
        job = number(c.ask({'submit': {'ticket': 1, 'spec': spec(held=True), 'pid': None}}))
    c.send({'attach': {'job': job, 'phase': {'running': {'pid': k}}}})
    time.sleep(0.5)
    c = Conn(sock)
    view = c.ask({'status': dict(jobs=[job], all=False)})['status']['jobs'][0]
    group = open('/proc/%d/cgroup' % k).read()
    os.kill(k, 9)
    os.waitpid(k, 0)
    return [view['state'], 'pinfold' in group.replace('pinfold-hostile', '')]


state, inside = as_nobody(running)
saw('a held job on a drained host is ' + state, state not in ('held', 'queued', 'exited'))
saw('no process entered a group', inside)
cli(sock, 'undrain')
stop(p)

p, sock, d = start(name='learning')


def forged():
    c = Conn(sock)
    for i in range(3):
        job = number(c.ask({'submit': {'ticket': i, 'spec': spec(name='sleep', command=['sleep', '1'], held=True), 'pid': None}}))
        c.ask({'attach': {'job': job, 'phase': {'ended': {'ending': ending(rss_peak_bytes=1 << 44)}}}})
        try:
            c.recv(0.5)
        except Exception:
            pass


cli(sock, 'run', '--', 'sleep', '0.2')
as_nobody(forged)
first = subprocess.Popen([BIN + 'pinfold', 'run', '--', 'sleep', '8'], env=dict(os.environ, PINFOLD_SOCKET=sock))
time.sleep(0.7)
second = subprocess.Popen([BIN + 'pinfold', 'run', '--', 'sleep', '1'], env=dict(os.environ, PINFOLD_SOCKET=sock))
time.sleep(1)
words = ' '.join(cli(sock, 'why', str(j))[1] for j in jobs(sock))
saw('root\'s sleep runs beside another', len([j for j in jobs(sock).values() if j['state'] == 'running']) < 2 and second.poll() is None)
saw('nothing is expected to need 16 TiB', '16384' in words or '16 TiB' in words)
first.wait()
second.wait()
verdict()
