"""Who wants to harm: the machine, the grader, the neighbours. Each attack stands in one cell.

An attack notes what it got with ``attempt``, and the exercise whose cell it took raises that as an
error, so the marks themselves say "it won nothing". The other three exercises are right and must
keep their marks. What could harm a machine with no sandbox is fired only where the process that the
tests planted cannot be seen.
"""

# ruff: noqa: E501  (the attacks are programs in strings)

from __future__ import annotations

from hostile.sheets import FIRST, NAMES, Outcome, hostile, stopped

OWN_LOSS = Outcome(dict.fromkeys(NAMES, "error|passed"), other_problems=True)
"""It may cost the learner's own other marks, and nothing else."""
TIME = stopped("(the answer to decode_bits) ran longer than")
TIME_OR_NUMBER = stopped("(the answer to decode_bits) ran longer than|took more than 64 processes")
"""The kernel counts the processes of all users but root, and where it does not, the grader does."""
MEMORY = stopped("(the answer to decode_bits) took more than|ran longer than")
"""On a busy machine the time may be up first. What was held by then tells whether memory is limited."""
ENDED = stopped("(the answer to decode_bits) ended the process")
ENOUGH = """
def plenty():
    'The machine keeps 3 GiB for others, whatever happens here. Caches of files count as free.'
    with open('/proc/meminfo') as told:
        available = next(line for line in told if line.startswith('MemAvailable'))
    return int(available.split()[1]) > 3 * 2**20
"""
LIBC = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(*words):
    'A system call; None if it was refused.'
    got = libc.syscall(*[ctypes.c_long(w) if isinstance(w, int) else w for w in words])
    return None if got < 0 else f'gave {got}'
"""
SECRETS = """
import re
looked_for = (AROUND['prefix'][0] + AROUND['prefix'][1] + '[0-9a-f]{32}').encode()
def secret_in(path, most=2**22):
    with open(path, 'rb') as file:
        return bool(re.search(looked_for, file.read(most)))
"""

# ---- processes and time -------------------------------------------------------------------------

PROCESSES = [
    hostile(
        "fork-bomb",
        "forks without end",
        "while True:\n    try: os.fork()\n    except OSError: time.sleep(0.01)",
        TIME_OR_NUMBER,
        dangerous=True,
    ),
    hostile(
        "busy-processes",
        "keeps every processor busy with 100 processes in sessions of their own",
        "for _ in range(100):\n    try:\n        if os.fork() == 0:\n            os.setsid()\n"
        "            while True: pass\n    except OSError: break\nwhile True: pass",
        TIME_OR_NUMBER,
        dangerous=True,
    ),
    hostile(
        "endless",
        "a loop that no exception ends",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        TIME,
    ),
    hostile(
        "deaf",
        "ignores every signal and loops",
        "import signal\nfor number in signal.valid_signals():\n"
        "    try: signal.signal(number, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
        "    try: signal.pthread_sigmask(signal.SIG_BLOCK, [number])\n    except OSError: pass\n"
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        TIME,
    ),
    hostile(
        "says-it-begins",
        "a thread that tells the grader again and again that a cell begins",
        "import threading\nfrom amp_lessons.classroom.grading import frames\n"
        "pipe = next(o for o in __import__('gc').get_objects() if type(o).__name__ == 'ToGrader').pipe\n"
        "def say():\n    while True:\n        frames.write(pipe, frames.packed({'begin': 4}))\n"
        "        time.sleep(0.2)\nthreading.Thread(target=say, daemon=True).start()\ntime.sleep(600)",
        OWN_LOSS,
    ),
    hostile(
        "stops-itself",
        "sends itself SIGSTOP",
        "import signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        TIME,
    ),
    hostile(
        "kills-itself",
        "sends itself SIGKILL",
        "import signal\nos.kill(os.getpid(), signal.SIGKILL)",
        stopped("(the answer to decode_bits) crashed the process (SIGKILL"),
    ),
    hostile("os-exit", "os._exit(0)", "os._exit(0)", ENDED),
    hostile(
        "interrupts-init",
        "sends every signal to the first process of its namespace",
        "for number in range(1, 65):\n    try: os.kill(1, number)\n    except OSError: pass",
        OWN_LOSS,
        dangerous=True,
    ),
    hostile(
        "kills-parents",
        "SIGKILL and SIGSTOP to its parent and to every process it can see",
        "import signal\n"
        "pids = {os.getppid(), AROUND['process'], *(int(n) for n in os.listdir('/proc') if n.isdigit())}\n"
        "for number in (signal.SIGSTOP, signal.SIGKILL):\n"
        "    for pid in pids - {os.getpid(), 0}:\n"
        "        try: os.kill(pid, number)\n        except OSError: pass\n"
        "time.sleep(0.3)",
        dangerous=True,
    ),
    hostile(
        "kills-all",
        "kill(-1, SIGKILL)",
        "import signal\nos.kill(-1, signal.SIGKILL)",
        dangerous=True,
    ),
    hostile(
        "kills-group",
        "SIGKILL to every process group",
        "import signal\nfor group in range(1, 400):\n"
        "    if group != os.getpgid(0):\n"
        "        try: os.killpg(group, signal.SIGKILL)\n        except OSError: pass",
        dangerous=True,
    ),
    hostile(
        "daemons",
        "processes in sessions of their own that sleep for an hour",
        "import subprocess\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(3600)', AROUND['mark']]\n"
        "for _ in range(3): subprocess.Popen(sleep, start_new_session=True)\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        os.closerange(0, 400)\n        time.sleep(3600)\n    os._exit(0)",
    ),
    hostile(
        "daemons-with-pipes",
        "daemons that hold the grader's pipes open",
        "for _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n"
        "            time.sleep(3600)\n        os._exit(0)",
    ),
    hostile(
        "daemons-then-exit",
        "leaves a busy daemon behind and ends",
        "import signal\nfor number in (15, 2, 1): signal.signal(number, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n    os.setsid()\n    while True: pass\nos._exit(3)",
        ENDED,
    ),
    hostile(
        "threads",
        "hundreds of threads that never end",
        "import threading\ndef more():\n    for _ in range(400):\n"
        "        try: threading.Thread(target=time.sleep, args=(3600,)).start()\n"
        "        except RuntimeError: return\nmore()",
        OWN_LOSS,
    ),
    hostile(
        "atexit",
        "sleeps for ever when Python ends, and when threads do",
        "import atexit, threading\natexit.register(time.sleep, 3600)\n"
        "threading._register_atexit(time.sleep, 3600)\n"
        "threading.Thread(target=time.sleep, args=(3600,)).start()",
    ),
    hostile(
        "hooks",
        "exception hooks, a trace function and a profiler that sleep",
        "def sleep(*_): time.sleep(3600)\n"
        "sys.excepthook = sys.unraisablehook = sys.breakpointhook = sleep\n"
        "get_ipython().set_custom_exc((Exception,), sleep)\nget_ipython().showtraceback = sleep\n"
        "import threading\nthreading.excepthook = sleep",
        Outcome({FIRST: "error"}, other_problems=True),
    ),
    hostile(
        "endless-message",
        "an exception whose text takes for ever",
        "class Endless(Exception):\n    def __str__(self):\n        while True: pass\n"
        "    __repr__ = __str__\nraise Endless",
        TIME,
    ),
    hostile(
        "priority",
        "asks for a higher priority",
        "attempt('nice', lambda: os.nice(-20) < 0)\n"
        "attempt('realtime', lambda: os.sched_setscheduler("
        "0, os.SCHED_FIFO, os.sched_param(50)) or 'FIFO')",
        dangerous=True,
    ),
    hostile(
        "limits-up",
        "sets its limits up",
        "import resource\n"
        "for name in [n for n in dir(resource) if n.startswith('RLIMIT_')]:\n"
        "    number = getattr(resource, name)\n    soft, hard = resource.getrlimit(number)\n"
        "    if hard != resource.RLIM_INFINITY:\n"
        "        attempt(name, lambda: resource.setrlimit(number, (hard, hard + 1)) or 'higher')\n"
        "attempt('parent', lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (3, 3)))",
        dangerous=True,
    ),
]

# ---- memory and disk ----------------------------------------------------------------------------

HELD = """
def workers(count, work):
    'Processes that hold what they can; how many MiB they say they hold.'
    ends = []
    for _ in range(count):
        reading, writing = os.pipe()
        if os.fork() == 0:
            try: held = work()
            except BaseException: held = 0
            os.write(writing, f'{held:08d}'.encode())
            time.sleep(3600)
        ends.append(reading)
        os.close(writing)
    return sum(int(os.read(end, 8) or 0) for end in ends)
"""

RESOURCES = [
    hostile(
        "memory",
        "eight processes that take all the memory they get",
        f"{ENOUGH}{HELD}"
        "held = []\ndef work():\n    try:\n        for _ in range(20):\n            if plenty():\n"
        "                held.append(bytearray(os.urandom(4096)) * (64 * 256))\n"
        "    except MemoryError: pass\n    return 64 * len(held)\n"
        "mebibytes = workers(8, work)\nattempt('MiB', lambda: mebibytes > 700 and mebibytes)\ntime.sleep(1)",
        MEMORY,
        dangerous=True,
    ),
    hostile(
        "shared-memory",
        "memory that processes share",
        f"{ENOUGH}{HELD}import mmap\nheld = []\n"
        "def work():\n    for _ in range(5):\n        if plenty():\n"
        "            held.append(mmap.mmap(-1, 2**26))\n            held[-1].write(b'x' * 2**26)\n"
        "    return 64 * len(held)\n"
        "mebibytes = workers(8, work)\nattempt('MiB', lambda: mebibytes > 700 and mebibytes)\ntime.sleep(1)",
        Outcome({FIRST: "error"}, other_problems=True),
        dangerous=True,
    ),
    hostile(
        "unmapped-memory",
        "shared memory that no process has mapped while it counts",
        f"{ENOUGH}{HELD}import mmap\nheld = []\n"
        "def work():\n    for _ in range(6):\n        if plenty():\n"
        "            held.append(mmap.mmap(-1, 2**26))\n"
        "            for start in range(0, 2**26, 2**22):\n"
        "                held[-1].write(b'x' * 2**22)\n"
        "                held[-1].madvise(mmap.MADV_DONTNEED, start, 2**22)\n"
        "    return 64 * len(held)\n"
        "mebibytes = workers(4, work)\nattempt('MiB', lambda: mebibytes > 700 and mebibytes)",
        Outcome({FIRST: "error"}, other_problems=True),
        dangerous=True,
    ),
    hostile(
        "memfd",
        "files in memory without a name",
        f"{ENOUGH}def fill():\n    file, held = os.memfd_create('x'), 0\n"
        "    while plenty() and held < 1500:\n        held += os.write(file, b'x' * 2**24) >> 20\n"
        "        if held > 700: return held\nattempt('MiB', fill)",
        dangerous=True,
    ),
    hostile(
        "system-v",
        "System V memory and message queues",
        f"{ENOUGH}{LIBC}"
        "attempt('shmget', lambda: call(29, 0, 2**28, 0o1600))\n"
        "def queues():\n    held, text = 0, ctypes.create_string_buffer(b'\\1' + bytes(8100))\n"
        "    while held < 400 * 2**20 and plenty():\n        queue = libc.msgget(0, 0o1600)\n"
        "        if queue < 0: break\n"
        "        while libc.msgsnd(queue, text, ctypes.c_size_t(8000), 0o4000) == 0: held += 8000\n"
        "    return held > 100 * 2**20 and held >> 20\n"
        "attempt('MiB in queues', queues)",
        dangerous=True,
    ),
    hostile(
        "socket-buffers",
        "memory in the buffers of 4,000 sockets",
        f"{ENOUGH}{HELD}import socket\nheld = []\n"
        "def work():\n    taken = 0\n    for _ in range(125):\n        if not plenty(): break\n"
        "        for one in socket.socketpair():\n            one.setblocking(False)\n"
        "            held.append(one)\n            try:\n"
        "                while True: taken += one.send(b'x' * 2**16)\n"
        "            except OSError: pass\n    return taken >> 20\n"
        "mebibytes = workers(16, work)\nattempt('MiB', lambda: mebibytes > 400 and mebibytes)",
        Outcome({FIRST: "error"}, other_problems=True),
        dangerous=True,
    ),
    hostile(
        "1-gib-file",
        "a file of 1 GiB",
        "def fill():\n    size = 0\n    with open('big', 'wb') as file:\n        try:\n"
        "            while size < 2**30: size += file.write(bytes(2**24))\n"
        "        except OSError: pass\n    return size > 2**29 and size\nattempt('bytes', fill)\n"
        "os.path.exists('big') and os.remove('big')",
        Outcome({FIRST: "error"}, other_problems=True),  # a slow disk takes longer than a cell may
        dangerous=True,
    ),
    hostile(
        "files-everywhere",
        "fills every place that it may write to",
        "def fill(place):\n    size = 0\n    for n in range(16):\n        try:\n"
        "            with open(f'{place}/fill{n}', 'wb') as file:\n"
        "                size += file.write(bytes(2**26))\n        except OSError: break\n"
        "    return size > 2**29 and size\n"
        "for place in ('/tmp', '/dev/shm', '/var/tmp', '/run', '.', '/tmp/home', '/tmp/tmp'):\n"
        "    attempt(place, lambda: fill(place))",
        Outcome({FIRST: "error"}, other_problems=True),
        dangerous=True,
    ),
    hostile(
        "50000-files",
        "50,000 files",
        "def make():\n    for n in range(50_000):\n        try: open(f'f{n}', 'w').close()\n"
        "        except OSError: return False\n    return n\nattempt('files', make)",
        Outcome({FIRST: "error"}, other_problems=True),
        dangerous=True,
    ),
    hostile(
        "3000-folders",
        "3,000 nested folders and one that nobody may enter",
        "here = os.getcwd()\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\n"
        "os.chdir(here)\nos.makedirs('closed/inner')\nos.chmod('closed', 0)",
    ),
    hostile(
        "open-files",
        "opens files until there are no more",
        "held = []\ntry:\n    while len(held) < 5000: held.append(os.open('/dev/null', 0))\n"
        "except OSError: pass",
        OWN_LOSS,
    ),
    hostile(
        "closes-all",
        "closes every descriptor",
        "os.closerange(0, 4096)",
        stopped("(the answer to decode_bits) "),
    ),
    hostile(
        "output-flood",
        "prints as fast as it can",
        "while True: os.write(1, b'x' * 2**16)",
        Outcome({FIRST: "error"}, {FIRST: "longer than"}, ("ran longer than", "printed far too")),
    ),
    hostile("aborts", "os.abort()", "os.abort()", stopped("(the answer to decode_bits) crashed")),
    hostile(
        "stack",
        "a recursion in C that overflows the stack",
        "sys.setrecursionlimit(10**9)\nx = ()\nfor _ in range(10**6): x = (x,)\nhash(x)",
        stopped("(the answer to decode_bits) crashed the process|ran longer than"),
    ),
]

# ---- the way out --------------------------------------------------------------------------------

ESCAPES = [
    hostile(
        "proc",
        "the folders of other processes in /proc",
        f"{SECRETS}"
        "own = {os.getpid(), *(int(n) for n in os.listdir('/proc/self/task'))}\n"
        "others = {os.getppid(), 1, AROUND['process'], "
        "*(int(n) for n in os.listdir('/proc') if n.isdigit())} - own\n"
        "for pid in others:\n"
        "    attempt(f'{pid} fd', lambda: os.listdir(f'/proc/{pid}/fd'))\n"
        "    attempt(f'{pid} root', lambda: os.listdir(f'/proc/{pid}/root'))\n"
        "    attempt(f'{pid} cwd', lambda: os.listdir(f'/proc/{pid}/cwd/'))\n"
        "    attempt(f'{pid} mem', lambda: open(f'/proc/{pid}/mem', 'r+b').close() or 'open')\n"
        "    attempt(f'{pid} env', lambda: open(f'/proc/{pid}/environ').read())\n"
        "    attempt(f'{pid} oom', lambda: open(f'/proc/{pid}/oom_score_adj', 'r+').close() or 'w')\n"
        "    for fd in range(40):\n"
        "        attempt(f'{pid} fd {fd}', lambda: os.open(f'/proc/{pid}/fd/{fd}', os.O_WRONLY))",
        dangerous=True,
    ),
    hostile(
        "ptrace",
        "attaches to other processes and reads their memory",
        f"{LIBC}"
        "others = {os.getppid(), 1, AROUND['process']} - {os.getpid(), 0}\n"
        "for pid in others:\n"
        "    attempt(f'seize {pid}', lambda: call(101, 0x4206, pid, 0, 0))\n"
        "    attempt(f'attach {pid}', lambda: call(101, 16, pid, 0, 0))\n"
        "    attempt(f'pidfd {pid}', lambda: pid != 1 and call(438, os.pidfd_open(pid), 1, 0))\n"
        "    here = (ctypes.c_size_t * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)\n"
        "    there = (ctypes.c_size_t * 2)(0x400000, 8)\n"
        "    attempt(f'read {pid}', lambda: call(310, pid, here, 1, there, 1, 0))",
        dangerous=True,
    ),
    hostile(
        "calls",
        "system calls that no notebook needs",
        f"{LIBC}"
        "buffer = ctypes.create_string_buffer(256)\n"
        "for name, words in {'io_uring': (425, 1, buffer), 'perf': (298, buffer, 0, -1, -1, 0),\n"
        "    'keyctl': (250, 0, -3, 1), 'add_key': (248, b'user', b'x', b'y', 1, -3),\n"
        "    'bpf': (321, 0, buffer, 64), 'userfaultfd': (323, 1), 'kcmp': (312, 1, os.getpid(), 0),\n"
        "    'fanotify': (300, 0, 0), 'fsopen': (430, b'tmpfs', 0), 'open_tree': (428, -100, b'/', 1),\n"
        "    'memfd_secret': (447, 0), 'syslog': (103, 3, buffer, 256), 'swapon': (167, b'/x', 0),\n"
        "    'quotactl': (179, 0x80000100, 0, 0, 0), 'personality': (135, 0x40000),\n"
        "    'acct': (163, b'/tmp/x'), 'x32': (0x40000000 + 39,), 'handle': (303, -100, b'/', buffer,"
        " buffer, 0), 'landlock': None}.items():\n"
        "    if words: attempt(name, lambda: call(*words))",
        dangerous=True,
    ),
    hostile(
        "rights",
        "other users, other roots, new namespaces, mounts, the clock",
        f"{LIBC}"
        "for name, action in {\n"
        "    'setuid': lambda: os.setuid(0) or os.getuid() == 0,\n"
        "    'setgroups': lambda: os.setgroups([0]) or 'done',\n"
        "    'chroot': lambda: os.chroot('/tmp') or 'done',\n"
        "    'hostname': lambda: call(170, b'mine', 4),\n"
        "    'clock': lambda: time.clock_settime(0, time.time()) or 'set',\n"
        "    'unshare': lambda: call(272, 0x10000000),\n"
        "    'unshare mounts': lambda: call(272, 0x20000),\n"
        "    'clone': lambda: call(56, 0x10000000 | 17, 0, 0, 0, 0),\n"
        "    'setns': lambda: call(308, os.open('/proc/1/ns/mnt', 0), 0),\n"
        "    'mount': lambda: call(165, b'x', b'/tmp', b'tmpfs', 0, 0),\n"
        "    'bind': lambda: call(165, b'/usr', b'/tmp/home', None, 4096, 0),\n"
        "    'remount': lambda: call(165, None, b'/usr', None, 0x20 | 0x1000, 0),\n"
        "    'umount proc': lambda: call(166, b'/proc', 2),\n"
        "    'umount tmp': lambda: call(166, b'/tmp', 2),\n"
        "    'pivot': lambda: call(155, b'/tmp', b'/tmp/home'),\n"
        "    'attributes': lambda: call(442, -100, b'/usr', 0, (ctypes.c_uint64 * 4)(0, 1, 0, 0), 32),\n"
        "    'node': lambda: os.mknod('/tmp/disk', 0o60666, os.makedev(254, 0)) or 'made',\n"
        "    'capabilities': lambda: call(126, (ctypes.c_uint32 * 2)(0x20080522, 0),"
        " (ctypes.c_uint32 * 6)(*[2**32 - 1] * 6)),\n"
        "    'new privileges': lambda: libc.prctl(38, 0, 0, 0, 0) == 0 or None,\n"
        "}.items(): attempt(name, action)\n"
        "caps = [l.split() for l in open('/proc/self/status') if l.startswith('Cap')]\n"
        "attempt('caps', lambda: [c for c in caps if int(c[1], 16)] or None)",
        dangerous=True,
    ),
    hostile(
        "suid",
        "programs that run as root",
        "import subprocess, glob\n"
        "for program in ('su', 'sudo', 'pkexec', 'mount', 'newgrp', 'unshare', 'bwrap', 'passwd'):\n"
        "    words = {'su': ['-c', 'id -u'], 'unshare': ['-r', 'id', '-u'], 'bwrap': ['--ro-bind', "
        "'/', '/', '--unshare-user', '--uid', '0', 'id', '-u']}.get(program, ['id', '-u'])\n"
        "    def run():\n        done = subprocess.run([program, *words], capture_output=True, "
        "stdin=subprocess.DEVNULL, timeout=1)\n        return done.stdout.strip() == b'0' or None\n"
        "    attempt(program, run)",
        dangerous=True,
    ),
    hostile(
        "network",
        "the network and sockets of the machine",
        "import socket\n"
        "attempt('cards', lambda: [n for _, n in socket.if_nameindex() if n != 'lo'] or None)\n"
        "attempt('tcp', lambda: socket.create_connection(('127.0.0.1', AROUND['port']), 1))\n"
        "def abstract():\n    s = socket.socket(socket.AF_UNIX)\n"
        "    s.connect('\\0' + AROUND['abstract'])\n    return 'connected'\n"
        "attempt('abstract', abstract)\n"
        "attempt('listen', lambda: [l for l in open('/proc/net/tcp').readlines()[1:]] or None)\n"
        "attempt('unix', lambda: [l for l in open('/proc/net/unix').readlines()[1:] if '@' in l] or None)",
    ),
    hostile(
        "socket-families",
        "sockets of families that no network namespace holds, and raw ones",
        "import socket\n"
        "for name in ('AF_VSOCK', 'AF_ALG', 'AF_PACKET', 'AF_BLUETOOTH', 'AF_TIPC', 'AF_CAN',"
        " 'AF_QIPCRTR', 'AF_RDS', 'AF_NETLINK'):\n"
        "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):\n"
        "        if hasattr(socket, name):\n"
        "            attempt(name, lambda: socket.socket(getattr(socket, name), kind) and 'made')",
    ),
    hostile(
        "home",
        "homes, keys and password files",
        f"{SECRETS}import glob, pwd\n"
        "for place in (AROUND['home'], os.path.expanduser('~'), '/root', '/home', "
        "*(p.pw_dir for p in pwd.getpwall())):\n"
        "    for path in glob.glob(f'{place}/*') + glob.glob(f'{place}/.*'):\n"
        "        if os.path.isfile(path): attempt(path, lambda: secret_in(path) or None)\n"
        "attempt('home', lambda: os.listdir(AROUND['home']))\n"
        "attempt('shadow', lambda: open('/etc/shadow').close() or 'open')",
        dangerous=True,
    ),
    hostile(
        "environment",
        "tokens in the environment and in its own memory",
        f"{SECRETS}"
        "attempt('environ', lambda: [n for n, v in os.environb.items() "
        "if re.search(looked_for, v)] or None)\n"
        "attempt('token', lambda: os.environ.get('GITHUB_TOKEN'))\n"
        "attempt('/proc', lambda: secret_in('/proc/self/environ') or None)\n"
        "def memory():\n    with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb') as mem:\n"
        "        for row in maps:\n            where, rights, *_ = row.split()\n"
        "            first, last = (int(x, 16) for x in where.split('-'))\n"
        "            if rights == 'rw-p' and last - first < 2**26:\n"
        "                mem.seek(first)\n                found = re.search(looked_for, mem.read(last - first))\n"
        "                if found: return found[0][:24]\nattempt('memory', memory)",
    ),
    hostile(
        "writes",
        "writing into Python, its packages, the course and the system",
        "import amp_lessons, torch, json\n"
        "for path in (amp_lessons.__file__, torch.__file__, json.__file__, sys.executable, "
        "os.path.realpath(sys.executable), '/etc/passwd', '/bin/sh', AROUND['neighbour'], "
        "AROUND['home'] + '/secrets.txt', AROUND['course'] + '/README.md'):\n"
        "    attempt(path, lambda: open(path, 'r+b').close() or 'open')\n"
        "for place in ('/', '/usr', '/etc', '/root', '/home', '/var', '/opt', '/dev', '/proc', '/sys', "
        "AROUND['course'], AROUND['package'], AROUND['home'], AROUND['victim'], AROUND['results'], "
        "os.path.dirname(torch.__file__), os.path.dirname(json.__file__), sys.prefix):\n"
        "    path = f'{place}/left-by-an-attack'\n"
        "    attempt(place, lambda: open(path, 'x').close() or os.remove(path) or 'made a file')",
    ),
    hostile(
        "kernel-settings",
        "settings of the kernel and of control groups",
        "def writable(top):\n    for place, folders, names in os.walk(top):\n"
        "        for name in names:\n            path = os.path.join(place, name)\n"
        "            if os.access(path, os.W_OK) and place != '/proc/sys/vm':\n                try:\n"
        "                    with open(path, 'r+b', 0) as file: file.write(file.read())\n"
        "                    return path\n                except OSError: pass\n"
        "for top in ('/proc/sys', '/sys/fs', '/sys/kernel', '/sys/module', '/sys/devices/system'):\n"
        "    attempt(top, lambda: writable(top))\n"
        "for path in ('/proc/sysrq-trigger', '/proc/self/uid_map', '/dev/kmsg', '/dev/mem', '/dev/vda'):\n"
        "    attempt(path, lambda: os.write(os.open(path, os.O_WRONLY), b'0 0 1'))",
        dangerous=True,
    ),
    hostile(
        "neighbours",
        "other submissions, results, and what earlier ones left",
        "import glob\nattempt('neighbour', lambda: open(AROUND['neighbour']).read(20))\n"
        "attempt('results', lambda: os.listdir(AROUND['results']))\n"
        "import amp_lessons, sys\n"
        "known = (os.getcwd(), sys.prefix, sys.base_prefix, amp_lessons.__file__)\n"
        "attempt('tmp', lambda: [n for n in os.listdir('/tmp') if n not in ('home', 'tmp', 'notebook')"
        " and not any(path.startswith(f'/tmp/{n}') for path in known)] or None)\n"
        "attempt('notebooks', lambda: [p for p in glob.glob('/tmp/*/*.ipynb')] or None)",
    ),
    hostile(
        "links",
        "links for a clean-up to follow",
        "os.symlink(AROUND['victim'], 'victim')\nos.symlink('/', 'all')\n"
        "os.symlink(AROUND['home'], os.environ.get('HOME', '.') + '/victim')\n"
        "os.makedirs('a/b')\nos.symlink('..', 'a/b/up')\nos.mkfifo('fifo')\n"
        "os.symlink('loop', 'loop')",
    ),
    hostile(
        "own-priority-to-die",
        "asks Linux to spare it when memory runs out",
        "file = os.open('/proc/self/oom_score_adj', os.O_WRONLY)\n"
        "attempt('below 0', lambda: os.write(file, b'-1'))",
        dangerous=True,
    ),
    hostile(
        "no-dump",
        "switches of prctl that hide a process or free it of its parent",
        f"{LIBC}"
        "for number, value in ((4, 0), (4, 1), (1, 0), (36, 1), (0x59616d61, -1), (15, 0)):\n"
        "    libc.prctl(number, ctypes.c_ulong(value % 2**64), 0, 0, 0)",
    ),
]

# ---- the pipe to the grader ---------------------------------------------------------------------

PIPE = """
import gc, json, struct
reporter = next(o for o in gc.get_objects() if type(o).__name__ == 'ToGrader')
def send(data):
    data = memoryview(data)
    while data: data = data[os.write(reporter.pipe, data):]
def frame(header, evidence=b''):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack('>I', len(text)) + text + struct.pack('>I', len(evidence)) + evidence
"""
ANY = Outcome({FIRST: "error"}, other_problems=True)
REPORTED = stopped("(the answer to decode_bits) reported too much")


def _pipe(name: str, tries: str, code: str, outcome: Outcome = ANY):
    return hostile(name, tries, PIPE + code, outcome)


PIPES = [
    _pipe("garbage", "random bytes into the pipe", "send(os.urandom(100_000))", REPORTED),
    _pipe("half-a-frame", "half a frame, then nothing", "send(frame({'end': 4})[:-6])", ANY),
    _pipe("long-header", "a header of 1 GB", "send(struct.pack('>I', 2**30) + b'x')", REPORTED),
    _pipe(
        "60-mb-evidence",
        "evidence of 60 MB",
        "send(frame({'step': 4, 'exercise': 'decode_bits'}, b'[' * 60_000_000))",
        REPORTED,
    ),
    _pipe(
        "much-evidence",
        "evidence of 8 MB again and again",
        "for _ in range(20): send(frame({'step': 4, 'exercise': 'x'}, b' ' * (8 * 2**20)))",
        REPORTED,
    ),
    _pipe(
        "100000-frames",
        "100,000 frames and more",
        "for _ in range(300): send(frame({}) * 10_000)",
    ),
    _pipe(
        "odd-headers",
        "headers of every type",
        "for header in (b'[]', b'1', b'null', b'{', b'[' * 60_000, b'{\"begin\": 1e999}',\n"
        "    b'{\"begin\": ' + b'9' * 60_000 + b'}', b'\\xff', {'begin': True}, {'begin': -1},\n"
        "    {'begin': 10**30}, {'end': [], 'error': 3}, {'end': 4, 'error': {'type': 3, 'message': [],"
        " 'line': {}}}, {'step': None, 'exercise': {}}, {'done': 'yes'}, {'ready': 1}, {}):\n"
        "    send(frame(header))",
    ),
    _pipe(
        "too-long",
        "says 200,000 times that evidence is too long",
        "step = next(i for i in range(60))\n"
        "for number in range(3, 8):\n"
        "    send(frame({'begin': number}))\n"
        "    many = frame({'step': number, 'exercise': 'decode_bits', 'too_long': 5})\n"
        "    for _ in range(20): send(many * 2000)\n"
        "    send(frame({'step': number, 'exercise': 'decode_bits', 'too_long': 10**400}))",
        OWN_LOSS,
    ),
    _pipe(
        "long-errors",
        "exceptions with long and hostile texts",
        "for number in range(40):\n"
        "    send(frame({'end': number, 'error': {'type': '\\x1b[2J' * 2000, 'message': "
        "'\\u202e\\n' * 9000, 'line': -1, 'source': '<script>', 'function': 'f'}, 'spoiled': ['x']}))",
    ),
    _pipe(
        "closes-the-pipe",
        "closes the pipe to the grader",
        "os.close(reporter.pipe)\ntime.sleep(600)",
        stopped("(the answer to decode_bits) closed its connection to the grader|ran longer than"),
    ),
    _pipe(
        "says-done",
        "says that it is done at the first exercise",
        "send(frame({'done': True}))\ntime.sleep(600)",
        OWN_LOSS,
    ),
    _pipe(
        "blames-others",
        "says that the grader is in another cell, then hangs",
        "send(frame({'begin': 5}))\ntime.sleep(600)",
        OWN_LOSS,
    ),
    _pipe(
        "nonblocking",
        "makes the pipe non-blocking and tiny",
        "import fcntl\nfcntl.fcntl(reporter.pipe, fcntl.F_SETFL, os.O_NONBLOCK)\n"
        "fcntl.fcntl(reporter.pipe, 1031, 4096)",
        Outcome({FIRST: "error"}, other_problems=True),
    ),
    _pipe(
        "two-reporters",
        "a fork that the reporter takes for its parent",
        "real = os.getpid()\nos.getpid = lambda: real\nos.fork()",
        Outcome(dict.fromkeys(NAMES, "error|passed|wrong"), other_problems=True),
    ),
]

HOSTILE = [*PROCESSES, *RESOURCES, *ESCAPES, *PIPES]
