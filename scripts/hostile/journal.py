"""A job is asked for, withdrawn and told as ended in one write, which no row of the store stands for."""
from lib import *
p, sock, d = start()


def attack():
    c = Conn(sock)
    n = number(c.ask({'submit': {'ticket': 1, 'spec': spec(held=True), 'pid': None}}))
    end = {'ended': {'job': n + 1, 'ending': ending()}}
    c.send({'submit': {'ticket': 2, 'spec': spec(held=True), 'pid': None}},
           {'withdraw': {'job': n + 1, 'reason': 'x'}}, end)
    time.sleep(0.3)
    # The same in other orders, also with an attach and with words about the job in between.
    for k, words in enumerate((
            [end, {'withdraw': {'job': 0, 'reason': 'x'}}, end],
            [{'control': {'job': 0, 'verb': 'release'}}, {'withdraw': {'job': 0, 'reason': 'x'}},
             {'attach': {'job': 0, 'phase': {'ended': {'ending': ending()}}}}],
            [{'control': {'job': 0, 'verb': {'cancel': {'signal': 0}}}}, end, {'withdraw': {'job': 0, 'reason': 'x'}}],
    )):
        c = Conn(sock)
        n = number(c.ask({'submit': {'ticket': 1, 'spec': spec(held=True), 'pid': None}}))
        text = json.dumps(words).replace('"job": 0', '"job": %d' % (n + 1))
        c.send({'submit': {'ticket': 2 + k, 'spec': spec(held=True), 'pid': None}}, *json.loads(text))
        time.sleep(0.3)


as_nobody(attack)
code, out, err, _ = cli(sock, 'status')
saw('the store can be written', 'cannot be written' in out + err)
job = background(sock, 'sleep', '300')
time.sleep(0.5)
crash(p)
p, sock, d = start()
time.sleep(1)
saw('root\'s job %s is known after a crash' % job, job not in jobs(sock))
after = background(sock, 'true')
saw('no number is given twice (%s after %s)' % (after, job), after is None or job is None or after <= job)
cli(sock, 'cancel', str(job))
verdict()
