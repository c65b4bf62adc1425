"""What the programs of this directory share: a daemon of root's in a private directory, and an unprivileged client
that speaks the wire by itself. Each program attacks, then calls `verdict` with what it saw; it exits with 1 if the
attack did harm."""
import json, os, re, shutil, signal, socket, struct, subprocess, sys, tempfile, threading, time

BIN = os.path.join(os.environ['PINFOLD_BIN'], '')
NOBODY = 65534
# One that unprivileged users can execute: the one that runs this may lie in root's home.
PYTHON = '/usr/bin/python3' if os.access('/usr/bin/python3', os.X_OK) else sys.executable
BASE = tempfile.mkdtemp(prefix='pinfold-hostile-')
os.chmod(BASE, 0o755)
VERSION = [0]
HARM = []
DAEMONS = []


def saw(what, harm):
    """Notes something seen, and whether it is harm."""
    print('  %-4s %s' % ('HARM' if harm else 'ok', what), flush=True)
    if harm:
        HARM.append(what)


def verdict():
    """Ends the daemons that still run, removes the directory, and exits by what was seen."""
    for p in DAEMONS:
        stop(p)
    # Keepers and jobs that these daemons left name the directory in their environment.
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if int(pid) != os.getpid() and BASE.encode() in open('/proc/%s/environ' % pid, 'rb').read():
                os.kill(int(pid), 9)
        except OSError:
            pass
    shutil.rmtree(BASE, ignore_errors=True)
    sys.exit(1 if HARM else 0)


class Conn:
    """A connection on the raw wire."""

    def __init__(s, path, hello=True):
        s.s, s.buf = socket.socket(socket.AF_UNIX), b''
        s.s.connect(path)
        if not hello:
            return
        s.send({'hello': {'version': VERSION[0]}})
        s.welcome = s.recv()
        if 'error' in s.welcome:
            # The second number is the daemon's version.
            VERSION[0] = int(re.findall(r'[0-9]+', s.welcome['error']['message'])[1])
            s.__init__(path)

    @staticmethod
    def frame(r):
        b = r if isinstance(r, bytes) else json.dumps(r, separators=(',', ':')).encode()
        return struct.pack('<I', len(b)) + b

    def send(s, *rs):
        s.s.sendall(b''.join(Conn.frame(r) for r in rs))

    def recv(s, timeout=120):
        s.s.settimeout(timeout)
        while True:
            if len(s.buf) >= 4:
                n = struct.unpack('<I', s.buf[:4])[0]
                if len(s.buf) >= 4 + n:
                    b, s.buf = s.buf[4:4 + n], s.buf[4 + n:]
                    return json.loads(b)
            d = s.s.recv(1 << 20)
            if not d:
                raise EOFError('closed')
            s.buf += d

    def ask(s, r, timeout=120):
        s.send(r)
        return s.recv(timeout)

    def close(s):
        s.s.close()


def spec(**k):
    """A job of one core."""
    return dict(dict(name='x', command=['sleep'], directory='/', cores=1), **k)


def ending(**k):
    """An end as a keeper tells it."""
    base = dict(exit_code=0, signal=None, ended_us=1, cpu_user_us=0, cpu_system_us=0, rss_peak_bytes=0,
                io_read_bytes=0, io_write_bytes=0)
    return dict(base, **k)


def number(reply):
    """The number of a job that was queued; None: it was not."""
    return reply.get('queued', {}).get('job') if isinstance(reply, dict) else None


def start(*args, name='d', wrapper=(), state=None):
    """A daemon of root's; gives its process, its socket, its directory."""
    d = os.path.join(BASE, name)
    os.makedirs(d, exist_ok=True)
    os.chmod(d, 0o755)
    sock = d + '/s.sock'
    log = open(d + '/log', 'ab')
    command = [*wrapper, BIN + 'pinfoldd', '--socket', sock, '--state-dir', state or d + '/state', *args]
    p = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    DAEMONS.append(p)
    until = time.time() + 60
    while time.time() < until and p.poll() is None:
        try:
            c = socket.socket(socket.AF_UNIX)
            c.connect(sock)
            c.close()
            return p, sock, d
        except OSError:
            time.sleep(0.02)
    sys.exit('the daemon does not start: ' + open(d + '/log').read()[-2000:])


def crash(p):
    """Kills a daemon as a crash would."""
    p.kill()
    p.wait()


def stop(p):
    """Stops a daemon, if it runs."""
    if p.poll() is None:
        p.send_signal(signal.SIGTERM)
        try:
            p.wait(60)
        except subprocess.TimeoutExpired:
            saw('the daemon does not stop', True)
            crash(p)


def spawn_as_nobody(f, *a, uid=NOBODY):
    """Starts `f` in a child as an unprivileged user; gives what waits for its result."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            out = f(*a)
        except BaseException as e:
            out = 'failed: %r' % (e,)
        os.write(w, json.dumps(out).encode()[:60000])
        os._exit(0)
    os.close(w)

    def result():
        b = b''
        while d := os.read(r, 65536):
            b += d
        os.close(r)
        os.waitpid(pid, 0)
        return json.loads(b) if b else None

    result.pid = pid
    result.running = lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    return result


def as_nobody(f, *a, uid=NOBODY):
    """Runs `f` as an unprivileged user."""
    return spawn_as_nobody(f, *a, uid=uid)()


def cli(sock, *args, timeout=120):
    """`pinfold` as root: code, output, errors, seconds."""
    t = time.time()
    try:
        p = subprocess.run([BIN + 'pinfold', *args], env=dict(os.environ, PINFOLD_SOCKET=sock),
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
        return p.returncode, p.stdout.strip(), p.stderr.strip(), time.time() - t
    except subprocess.TimeoutExpired:
        return None, '', 'no answer within %s s' % timeout, time.time() - t


def background(sock, *command):
    """Submits a job as root; gives its number, or None."""
    code, out, err, _ = cli(sock, 'submit', '-o', '/dev/null', '-e', '/dev/null', '--', *command)
    return int(out) if code == 0 else saw('a job of root\'s is refused: ' + err, True)


def jobs(sock, *args):
    """Jobs as `status` has them, by number."""
    code, out, err, _ = cli(sock, 'status', '--json', *args)
    return {j['job']: j for j in json.loads(out)['jobs']} if code == 0 else {}


def rss_mib(pid):
    """Resident memory of a process."""
    with open('/proc/%d/status' % pid) as f:
        return next((int(l.split()[1]) // 1024 for l in f if l.startswith('VmRSS')), 0)


class Meanwhile:
    """While an attack runs: the longest that root waits for an answer, and the most memory that the daemon has."""

    def __init__(s, p, sock):
        s.p, s.sock, s.longest, s.peak, s.over = p, sock, 0.0, 0, False
        s.before = rss_mib(p.pid)
        s.threads = [threading.Thread(target=s.memory), threading.Thread(target=s.answers)]

    def memory(s):
        while not s.over:
            s.peak = max(s.peak, rss_mib(s.p.pid))
            time.sleep(0.02)

    def answers(s):
        # No process is started for that: an attacker that is forked meanwhile would hold its pipes open.
        while not s.over:
            t = time.time()
            c = Conn(s.sock)
            c.ask('config_get', timeout=300)
            c.close()
            s.longest = max(s.longest, time.time() - t)
            time.sleep(0.05)

    def __enter__(s):
        for t in s.threads:
            t.start()
        return s

    def __exit__(s, *_):
        s.over = True
        for t in s.threads:
            t.join()

    def judge(s, seconds=2.0, mib=64):
        """An answer on a busy machine takes a tenth of a second; the bounds leave room for a noisy one."""
        saw('root waited for an answer for %.2f s at most' % s.longest, s.longest > seconds)
        grown = s.peak - s.before
        saw('the daemon grew by %d MiB' % grown, grown > mib)
