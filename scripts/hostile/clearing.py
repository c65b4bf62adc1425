"""A job's directory in memory is emptied while its user goes on making files in it, also at a daemon's start."""
from lib import *
p, sock, d = start()


def makes_files(script, writers, seconds, wait):
    os.environ['PINFOLD_SOCKET'] = sock
    q = subprocess.Popen([BIN + 'pinfold', 'run', '--tmp', '64MiB', '--', '/bin/sh', '-c', script], stdout=subprocess.PIPE, text=True)
    made, kids = q.stdout.readline().strip(), []
    for k in range(writers):
        pid = os.fork()
        if pid == 0:
            fd, until, i = os.open(made, os.O_RDONLY), time.time() + seconds, 0
            while time.time() < until:
                i += 1
                try:
                    os.close(os.open('f%d-%d' % (k, i), os.O_CREAT, dir_fd=fd))
                except OSError:
                    pass
            os._exit(0)
        kids.append(pid)
    try:
        q.wait(wait)
    except subprocess.TimeoutExpired:
        q.kill()
    for k in kids:
        os.waitpid(k, 0)


def many_files(count):
    os.environ['PINFOLD_SOCKET'] = sock
    script = "import os\nd = os.environ['TMPDIR']\nfor i in range(%d): os.close(os.open(d + '/%%d' %% i, os.O_CREAT))" % count
    subprocess.run([BIN + 'pinfold', 'run', '--tmp', '4GiB', '--', PYTHON, '-c', script])


with Meanwhile(p, sock) as m:
    as_nobody(makes_files, 'echo $TMPDIR; sleep 2', 4, 20, 60)
    as_nobody(many_files, 600000)
m.judge()
attack = spawn_as_nobody(makes_files, 'echo $TMPDIR; sleep 4', 4, 30, 6)
time.sleep(6)
crash(p)
t = time.time()
p, sock, d = start()
code = cli(sock, 'status', timeout=100)[0]
took = time.time() - t
saw('a daemon answered %.1f s after its start' % took, code != 0 or took > 5)
attack()
verdict()
