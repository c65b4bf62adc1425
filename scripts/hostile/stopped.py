"""A `run` that is stopped while it waits takes a slot and does nothing with it."""
from lib import *
p, sock, d = start('--set', 'slots.factor=1', '--set', 'host.cpus=0')
e = dict(os.environ, PINFOLD_SOCKET=sock)
first = subprocess.Popen([BIN + 'pinfold', 'run', '--', 'sleep', '2'], env=e)
time.sleep(0.4)
second = subprocess.Popen([BIN + 'pinfold', 'run', '--', 'true'], env=e)
time.sleep(0.4)
second.send_signal(signal.SIGSTOP)
first.wait()
code, out, err, took = cli(sock, 'run', '--ttl', '60s', '--', 'true', timeout=90)
saw('a third job ran after %.1f s (%s)' % (took, err), code != 0)
second.send_signal(signal.SIGCONT)
try:
    saw('the stopped one runs once it goes on', second.wait(60) != 0)
except subprocess.TimeoutExpired:
    saw('the stopped one never runs', True)
    second.kill()
verdict()
