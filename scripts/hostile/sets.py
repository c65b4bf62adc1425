"""A user without rights sets cores aside: those of others, for ever, all of them, or for no time."""
from lib import *
p, sock, d = start()
first, second = background(sock, 'sleep', '60'), background(sock, 'sleep', '60')
until = time.time() + 10
while time.time() < until and any(j['state'] != 'running' for j in jobs(sock).values()):
    time.sleep(0.1)
aside = lambda **k: {'set_aside': dict(dict(name=None, cpus=None, cores=None, memory_bytes=None, shared=False,
                                            housekeeping=False, users=[], hold_us=None), **k)}


def attack():
    c, got = Conn(sock), []
    for k in (dict(cpus='1', hold_us=(1 << 64) - 1), dict(cpus='0-1', hold_us=1), dict(cores=2, hold_us=(1 << 64) - 1),
              dict(cores=1), dict(name='mine', cpus='1'), dict(name='mine', cores=1), dict(cpus='1', shared=True),
              dict(cpus='1', housekeeping=True), dict(cpus='1', memory_bytes=1 << 34), dict(cores=1, memory_bytes=1 << 40)):
        reply = c.ask(aside(**k))
        if reply.get('set_made', {}).get('name'):
            got.append([k, reply])
    return got


got = as_nobody(attack)
saw('cores on which jobs of root\'s run are not given away: %s' % got, bool(got))
for job in (first, second):
    cli(sock, 'cancel', '--signal', 'KILL', str(job))
until = time.time() + 10
while time.time() < until and jobs(sock):
    time.sleep(0.1)


def idle():
    """On an idle host: again and again all that can be had, for as long as can be had."""
    c, got = Conn(sock), 0
    for _ in range(20):
        for k in (dict(cores=2, hold_us=(1 << 64) - 1), dict(cores=1, hold_us=(1 << 64) - 1),
                  dict(cores=1, memory_bytes=1 << 33, hold_us=(1 << 64) - 1)):
            got += bool(c.ask(aside(**k)).get('set_made', {}).get('name'))
    return got


print('  sets of idle cores:', as_nobody(idle))
code, out, err, took = cli(sock, 'run', '--ttl', '60s', '--', 'true', timeout=100)
saw('a job of root\'s runs (%s %s)' % (code, err), code != 0)


def storm():
    c = Conn(sock)
    for k in (dict(cores=1, hold_us=0), dict(cpus='1', hold_us=0)):
        name = c.ask(aside(**k)).get('set_made', {}).get('name') or 'idle-1'
        c.ask({'submit': {'ticket': 1, 'spec': spec(held=True, layout=dict(options=[], set=name)), 'pid': None}})
    time.sleep(6)


def ticks():
    fields = open('/proc/%d/stat' % p.pid).read().rsplit(')', 1)[1].split()
    return int(fields[11]) + int(fields[12])


attack = spawn_as_nobody(storm)
time.sleep(1)
before = ticks()
time.sleep(4)
used = (ticks() - before) / 4
saw('a set held for no time costs the daemon %.0f %% of a core' % used, used > 10)
attack()
verdict()
