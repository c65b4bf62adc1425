"""The disk of the state directory is full for a moment."""
from lib import *
disk = BASE + '/disk'
os.makedirs(disk)
subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=6m,mode=0700', 'none', disk], check=True)
try:
    p, sock, d = start(state=disk)
    turn = lambda: (cli(sock, 'drain')[0], cli(sock, 'undrain')[0])
    turn()
    with open(disk + '/fill', 'wb') as f:
        try:
            while True:
                f.write(b'x' * 4096)
                f.flush()
        except OSError:
            pass
    for _ in range(40):
        turn()
    os.remove(disk + '/fill')
    turn()
    code, out, err, _ = cli(sock, 'audit', '--verify')
    saw('the audit holds: %s' % err, code != 0)
    stop(p)
finally:
    subprocess.run(['umount', disk])
verdict()
