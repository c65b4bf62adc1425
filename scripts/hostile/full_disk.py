"""The disk of the state directory is full for a moment."""
from lib import *
disk = BASE + '/disk'
os.makedirs(disk)
subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=6m,mode=0700', 'none', disk], check=True)
try:
    p, sock, d = start(state=disk)
    turn = lambda: (cli(sock, 'drain')[0], cli(sock, 'undrain')[0])
    turn()
    fill = os.open(disk + '/fill', os.O_CREAT | os.O_WRONLY)
    try:
        while True:
            os.write(fill, b'x' * 4096)
    except OSError:
        pass
    os.close(fill)
    for _ in range(40):
        turn()
    os.remove(disk + '/fill')
    turn()
    code, out, err, _ = cli(sock, 'audit', '--verify')
    saw('the audit holds: %s' % err, code != 0)
    stop(p)
finally:
    for daemon in DAEMONS:
        stop(daemon)
    subprocess.run(['umount', disk])
verdict()
