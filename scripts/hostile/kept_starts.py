"""What one user's waiting jobs leave for the next daemon keeps root's from coming back."""
from lib import *
wrapper = ['setpriv', '--no-new-privs']
p, sock, d = start(wrapper=wrapper)


def attack(count=1100):
    c, big, kept = Conn(sock), 'A=' + 'x' * 255000, 0
    for i in range(count):
        job = number(c.ask({'submit': {'ticket': i, 'spec': spec(held=True), 'pid': None}}))
        if job is None:
            break
        c.send({'keep': {'job': job, 'start': dict(words=['pinfold', 'submit', 'true'], environment=[big],
                                                   directory='/', umask=18, limits=[], oom_score_adj=0)}})
        kept += 1
    c.ask('where')
    return kept


with Meanwhile(p, sock) as m:
    print('  kept:', as_nobody(attack))
m.judge(mib=128)
code, out, err, _ = cli(sock, 'submit', '--hold', '-o', '/dev/null', '-e', '/dev/null', '--', 'true')
saw('root\'s job is taken ' + err, code != 0)
mine = int(out) if code == 0 else 0
time.sleep(1)
crash(p)
p, sock, d = start(wrapper=wrapper)
code, out, err, took = cli(sock, '--no-autostart', 'keepers')
saw('keepers come back: %s %s' % (code, err[:200]), code != 0)
saw('root\'s job waits as before', jobs(sock).get(mine, {}).get('state') != 'held')
verdict()
