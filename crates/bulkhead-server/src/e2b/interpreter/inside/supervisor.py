"""Holds the contexts of one room: forks those of Python, starts the others, joins their streams.

It reads orders and writes reports, a line of JSON each. A report is about a slot, which is one life
of a context. What a context writes is passed on only while there is credit for it, so that somebody
who reads slowly holds back that context and no other.
"""

import codecs
import importlib
import json
import os
import re
import selectors
import signal
import time
from fcntl import F_DUPFD, fcntl as control

CHUNK = 64 << 10  # The most text in one report.
LINE = 16 << 20  # The longest message of a context.
PAUSE = 0.004  # So long text waits for more text, in seconds.
WINDOW = 1 << 20  # Credit of a context that has just begun.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# What code is likely to need, loaded when there is nothing else to do: a fork has it for nothing.
# The heavy ones come in parts, so that nobody waits long for the one that is being loaded.
LATER = """
    threading inspect pprint random datetime math collections itertools functools typing dataclasses
    subprocess shutil tempfile pathlib urllib.parse decimal statistics string csv copy uuid hashlib
    socket ssl concurrent.futures concurrent.futures.thread asyncio.events asyncio http.client
    urllib.request
""".split()

ORDERS, REPORTS = 3, 4


def report(slot, **what):
    put(json.dumps({"slot": slot, **what}).encode())


def put(line):
    line = memoryview(line + b"\n")
    while line:
        line = line[os.write(REPORTS, line) :]


def strike(pid, number):
    """Signals a context and what it has started; one that was just born may have no group yet."""
    for send in (os.killpg, os.kill):
        try:
            send(pid, number)
            return
        except ProcessLookupError:
            pass


class Stream:
    """What a context writes to one of its two outputs."""

    def __init__(self, name, fd):
        self.name, self.fd = name, fd
        os.set_blocking(fd, False)
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.text, self.since = "", 0.0

    def read(self):
        """How much came."""
        try:
            data = os.read(self.fd, CHUNK)
        except BlockingIOError:
            return 0
        if not self.text:
            self.since = time.monotonic()
        self.text += self.decode(data)
        return len(data)


class Context:
    """One life of a context: a process, its two outputs, and a pipe each way for messages."""

    def __init__(self, order):
        self.slot, self.language = order["slot"], order["language"]
        self.known = {it: order[it] for it in ("slot", "id", "language", "cwd", "usual")}
        self.credit, self.room, self.run = WINDOW, 0, None
        self.waiting, self.inbox, self.messages = b"", b"", []
        self.process = self.pid = None

    def open(self, cwd, env):
        pipes = [os.pipe() for _ in range(4)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1], pipes[3][1]]
        ours = [pipes[0][1], pipes[1][0], pipes[2][0], pipes[3][0]]
        try:
            self.pid = START[self.language](theirs, cwd, env)
        except BaseException:
            for fd in ours:
                os.close(fd)
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        self.orders, self.said = ours[0], ours[1]
        os.set_blocking(self.orders, False)
        os.set_blocking(self.said, False)
        if self.language == "bash":
            self.send(SCRIPTS["bash"].encode())
        self.streams = [Stream("out", ours[2]), Stream("err", ours[3])]
        self.watching = True
        for fd in ours[1:]:
            ALL.register(fd, selectors.EVENT_READ, self)

    def watch(self, on):
        if on == self.watching:
            return
        self.watching = on
        for fd in (self.said, *(it.fd for it in self.streams)):
            if on:
                ALL.register(fd, selectors.EVENT_READ, self)
            else:
                ALL.unregister(fd)

    def send(self, data):
        self.waiting += data
        self.push()

    def push(self):
        """Writes what the process takes; the rest waits for it."""
        before = bool(self.waiting)
        try:
            while self.waiting:
                self.waiting = self.waiting[os.write(self.orders, self.waiting) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self.waiting = b""
        registered = self.orders in ALL.get_map()
        if self.waiting and not registered:
            ALL.register(self.orders, selectors.EVENT_WRITE, self)
        elif not self.waiting and registered and before:
            ALL.unregister(self.orders)

    def start(self, run, code, env, room):
        self.run, self.room = run, room
        for stream in self.streams:
            stream.text = ""
        if self.language == "bash":
            words = [quote(it.replace("\0", "")) for it in (code, *around(env))]
            self.send(f"_go {words[1]} {words[0]} {words[2]}\n".encode())
        else:
            self.send(json.dumps({"code": code, "env": env}).encode() + b"\n")

    def pump(self):
        """Passes on what has come, as far as there is credit; says whether it still lives."""
        while self.credit > 0:
            if self.messages:
                self.deliver(self.messages.pop(0))
                continue
            try:
                data = os.read(self.said, CHUNK)
            except BlockingIOError:
                data = None
            # Text that was written before a message is in its pipe by now.
            while self.credit > 0 and any([self.take(it) for it in self.streams]):
                pass
            if data is None:
                break
            if not data:
                return False
            self.inbox += data
            if b"\n" in data:
                *lines, self.inbox = self.inbox.split(b"\n")
                self.messages.extend(lines)
            elif len(self.inbox) > LINE:
                strike(self.pid, signal.SIGKILL)
                return False
        self.watch(self.credit > 0)
        return True

    def take(self, stream):
        came = stream.read()
        if len(stream.text) >= CHUNK:
            self.flush(stream)
        return came

    def flush(self, stream):
        text, stream.text = stream.text, ""
        # Once there was too much, nothing more is passed on.
        if not text or self.run is None or self.room is None:
            return
        size = len(text.encode())
        if size > self.room:
            text = text.encode()[: self.room].decode("utf-8", "ignore")
            report(self.slot, run=self.run, cost=0, **{stream.name: text})
            report(self.slot, run=self.run, dropped=True)
            self.room = None
            return
        self.room -= size
        self.credit -= size
        report(self.slot, run=self.run, cost=size, **{stream.name: text})

    def deliver(self, line):
        for stream in self.streams:
            self.flush(stream)
        if self.language == "bash":
            line = json.dumps(bash_message(line)).encode()
        if self.run is None or not line:
            return
        self.credit -= len(line)
        put(b'{"slot":%d,"run":%d,"cost":%d,"message":%b}' % (self.slot, self.run, len(line), line))
        if b'"done"' in line[:8]:
            self.run = None

    def interrupt(self):
        strike(self.pid, signal.SIGINT)
        if self.language == "bash":
            self.send(b"\n_stopped\n")
        elif self.language != "python":
            self.send(b'{"interrupt":true}\n')

    def close(self):
        """Ends it for good; says how it ended."""
        for stream in self.streams:
            self.flush(stream)
        self.watch(False)
        if self.orders in ALL.get_map():
            ALL.unregister(self.orders)
        for fd in (self.orders, self.said, *(it.fd for it in self.streams)):
            os.close(fd)
        # It has ended already, or its streams have: what is left of it goes too.
        deadline = time.monotonic() + 0.05
        status = 0
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                strike(self.pid, signal.SIGKILL)
                _, status = os.waitpid(self.pid, 0)
                break
            time.sleep(0.001)
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        code = os.waitstatus_to_exitcode(status)
        return f"signal {-code}" if code < 0 else f"exit status {code}"


def quote(text):
    """The same text as one word of the shell."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def which(*names):
    """Where the first of some programs is."""
    dirs = os.environ.get("PATH", os.defpath).split(":")
    found = (os.path.join(dir, name) for name in names for dir in dirs if dir)
    return next((it for it in found if os.path.isfile(it) and os.access(it, os.X_OK)), None)


def around(env):
    """What sets variables for one run of the shell, and what takes them back."""
    names = [it for it in env if NAME.match(it)]
    before = [f"_had_{it}=${{{it}+x}} _old_{it}=${{{it}-}}" for it in names]
    before += [f"export {it}={quote(env[it])}" for it in names]
    after = [
        f'if [ "$_had_{it}" ]; then {it}=$_old_{it}; else unset {it}; fi; unset _had_{it} _old_{it}'
        for it in names
    ]
    return "\n".join(before), "\n".join(after)


def bash_message(line):
    """A shell says what it has to say in a word and a number."""
    word, _, number = line.decode("ascii", "replace").partition(" ")
    number = int(number) if number.isdigit() else 0
    if word == "count":
        return {"count": number}
    if word == "status" and number:
        what = f"exit status {number}"
        return {"error": {"name": "ExitError", "value": str(number), "traceback": what}}
    return {"done": True} if word == "done" else {"nothing": True}


class Unsupported(Exception):
    """There is no such language here."""


def fork(theirs, cwd, env):
    """A context of Python is a copy of this process, which has everything loaded."""
    kernel = part("python")
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        settle(cwd, env, (os.open("/dev/null", os.O_RDONLY), *theirs[2:], *theirs[:2]))
        os.closerange(5, 4096)
        # What code starts must not have them.
        os.set_inheritable(ORDERS, False)
        os.set_inheritable(REPORTS, False)
        kernel.main(ORDERS, REPORTS)
    finally:
        os._exit(1)


def settle(cwd, env, streams):
    """Makes `streams` the first descriptors of a process that was just forked."""
    os.setsid()
    # High enough not to be overwritten by one another.
    streams = [control(it, F_DUPFD, 10) for it in streams]
    for number, stream in enumerate(streams):
        os.dup2(stream, number, inheritable=True)
    os.environ.update(env)
    os.chdir(cwd)


def spawn(argv, streams, cwd, env):
    """Starts a program whose first descriptors are `streams`, and which has no others."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        settle(cwd, env, streams)
        os.closerange(len(streams), 4096)
        os.execv(argv[0], argv)
    finally:
        os._exit(127)


def javascript(language):
    def start(theirs, cwd, env):
        node = which("node", "nodejs")
        if node is None:
            raise Unsupported(f"{language} needs Node.js, which is not installed in this sandbox")
        argv = [node, "--no-warnings", "-e", SCRIPTS["node"], "--", "3", "4", language]
        null = os.open("/dev/null", os.O_RDONLY)
        try:
            return spawn(argv, (null, *theirs[2:], *theirs[:2]), cwd, env)
        finally:
            os.close(null)

    return start


def bash(theirs, cwd, env):
    """A shell that believes somebody types: only such a one survives an interrupt as it is."""
    shell = which("bash")
    if shell is None:
        raise Unsupported("bash is not installed in this sandbox")
    argv = [shell, "--norc", "--noprofile", "--noediting", "-i"]
    # It complains at first that nobody does, to nobody.
    null = os.open("/dev/null", os.O_WRONLY)
    try:
        streams = (theirs[0], theirs[2], null, theirs[3], theirs[1])
        return spawn(argv, streams, cwd, {**env, "PS1": "", "PS2": ""})
    finally:
        os.close(null)


START = {
    "python": fork,
    "javascript": javascript("javascript"),
    "typescript": javascript("typescript"),
    "bash": bash,
}
CONTEXTS = {}
GREETED = []


def opened(order):
    language, cwd = order["language"], order["cwd"]
    if language not in START:
        there = ", ".join(START)
        raise Unsupported(f"language '{language}' is not supported by this sandbox; {there} are")
    if not os.path.isdir(cwd):
        raise Unsupported(f"cwd '{cwd}' does not exist")
    context = Context(order)
    context.open(cwd, order["env"])
    CONTEXTS[context.slot] = context


def languages():
    """The languages that there are programs for."""
    node = which("node", "nodejs")
    there = {"javascript": node, "typescript": node, "bash": which("bash")}
    return ["python", *(name for name, program in there.items() if program)]


def obey(order):
    op, slot = order["op"], order["slot"]
    context = CONTEXTS.get(slot)
    if op == "open":
        try:
            opened(order)
        except (OSError, Unsupported) as error:
            report(slot, failed=str(error))
        else:
            report(slot, opened=True)
    elif op == "hello":
        living = [{**it.known, "busy": it.run is not None} for it in CONTEXTS.values()]
        GREETED.append(True)
        report(0, hello={"living": living, "languages": languages()})
    elif context is None:
        report(slot, died="it is not there")
    elif op == "run":
        context.start(order["run"], order["code"], order["env"], order["room"])
    elif op == "credit":
        context.credit += order["bytes"]
        if not context.pump():
            bury(context)
    elif op == "interrupt":
        context.interrupt()
    elif op == "close":
        strike(context.pid, signal.SIGKILL)
        bury(context)


def bury(context):
    del CONTEXTS[context.slot]
    report(context.slot, died=context.close())


def deadline():
    """When the first text that waits has waited long enough, or something can be done meanwhile."""
    if LATER and GREETED:
        return 0
    waits = [
        it.since + PAUSE for context in CONTEXTS.values() for it in context.streams if it.text
    ]
    return max(0.0, min(waits) - time.monotonic()) if waits else None


def load_more():
    try:
        importlib.import_module(LATER.pop(0))
    except ImportError:
        # A python that was built without it.
        pass


def flush_old():
    now = time.monotonic()
    for context in CONTEXTS.values():
        for stream in context.streams:
            if stream.text and stream.since + PAUSE <= now and context.credit > 0:
                context.flush(stream)


def main():
    global ALL
    # Nobody but the two of us has these: programs get streams of their own.
    os.dup2(0, ORDERS, inheritable=False)
    os.dup2(1, REPORTS, inheritable=False)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    # Not ignored: what is ignored stays so in whatever is started.
    signal.signal(signal.SIGINT, lambda *_: None)
    os.set_blocking(ORDERS, False)
    # Made only now, because its descriptor could have been one of those.
    ALL = selectors.DefaultSelector()
    ALL.register(ORDERS, selectors.EVENT_READ, None)
    part("python")
    inbox = b""
    while True:
        ready = ALL.select(deadline())
        if not ready and LATER and GREETED:
            load_more()
        for key, events in ready:
            context = key.data
            if context is not None:
                if context.slot not in CONTEXTS:
                    continue
                if events & selectors.EVENT_WRITE:
                    context.push()
                elif not context.pump():
                    bury(context)
                continue
            data = os.read(ORDERS, 1 << 20)
            if not data:
                for context in CONTEXTS.values():
                    strike(context.pid, signal.SIGKILL)
                return
            *lines, inbox = (inbox + data).split(b"\n")
            for line in lines:
                try:
                    order = json.loads(line)
                except ValueError:
                    # Somebody ended in the middle of it.
                    continue
                obey(order)
        flush_old()
