"""A context of Python: reads what to run, runs it in one namespace, says what came of it."""

import ast
import builtins
import importlib
import io
import json
import linecache
import os
import signal
import sys
import threading
import traceback
import types

shown = part("display")
FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
COROUTINE = 0x80  # As `inspect` calls it, which takes long to load.
LINE = 15 << 20  # The longest message; the reader's limit is a little higher.


class Output(io.TextIOWrapper):
    """Flushes at the end of a line, and a moment after anything else."""

    timer = None

    def write(self, text):
        written = super().write(text)
        if "\n" not in text and self.timer is None:
            self.timer = threading.Timer(0.05, self.later)
            self.timer.daemon = True
            self.timer.start()
        return written

    def later(self):
        self.timer = None
        self.flush()


class Kernel:
    def __init__(self, said):
        self.said, self.count, self.running = said, 0, False
        self.lock, self.pid = threading.Lock(), os.getpid()
        self.loop = None
        self.module = types.ModuleType("__main__")
        self.space = self.module.__dict__
        self.space.update(__builtins__=builtins, display=shown.display)
        self.space["get_ipython"] = builtins.get_ipython = lambda: part("magic").SHELL
        sys.modules["__main__"] = self.module

    def send(self, message):
        line = json.dumps(message, allow_nan=False).encode()
        if len(line) > LINE:
            return False
        # Somebody who was forked by the program has nothing to say here.
        if os.getpid() == self.pid:
            rest = memoryview(line + b"\n")
            with self.lock:
                while rest:
                    rest = rest[os.write(self.said, rest) :]
        return True

    def publish(self, bundle, main):
        """Shows something in all its forms; those that are too long are left out."""
        sys.stdout.flush()
        bundle = shown.clean(bundle)
        while not self.send({"result": bundle, "main": main}) and bundle:
            longest = max(bundle, key=lambda it: len(str(bundle[it])))
            left = bundle.pop(longest)
            print(f"a result in the form {longest} is too long to be shown", file=sys.stderr)
            if longest == "text/plain":
                bundle[longest] = left[:100_000] + "…"

    def run(self, code, env):
        self.count += 1
        self.send({"count": self.count})
        before = {name: os.environ.get(name) for name in env}
        os.environ.update(env)
        importlib.invalidate_caches()
        try:
            self.running = True
            try:
                self.cell(code)
                shown.flush_figures()
            finally:
                self.running = False
        except BaseException as error:
            self.complain(error)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        self.send({"done": True})

    def cell(self, code):
        name = f"<cell {self.count}>"
        code = dedent(code)
        tree, code = parsed(code, name)
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        quiet = code.rstrip().endswith(";")
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not quiet:
            last = ast.Expression(tree.body.pop().value)
        if tree.body:
            self.evaluate(compile(tree, name, "exec", FLAGS, dont_inherit=True))
        if last is not None:
            value = self.evaluate(compile(last, name, "eval", FLAGS, dont_inherit=True))
            if value is not None:
                self.space["_"] = value
                self.publish(shown.forms(value), True)

    def evaluate(self, code):
        value = eval(code, self.space)
        if not code.co_flags & COROUTINE:
            return value
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(value)
        try:
            return self.loop.run_until_complete(task)
        except BaseException:
            task.cancel()
            raise

    def complain(self, error):
        """Says what went wrong, without the part that is ours."""
        trace = error.__traceback__
        while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<cell"):
            trace = trace.tb_next
        try:
            value = str(error)
        except Exception:
            value = "<it cannot be said>"
        try:
            told = traceback.TracebackException(type(error), error, trace)
            ours = [it for it in told.stack if not it.filename.startswith("<bulkhead")]
            told.stack = traceback.StackSummary.from_list(ours)
            text = "".join(told.format())
        except Exception:
            text = f"{type(error).__name__}: {value}"
        if len(text) > 1 << 20:
            text = text[: 1 << 19] + "\n…\n" + text[-(1 << 19) :]
        name = type(error).__name__
        self.send({"error": {"name": name, "value": value[: 1 << 20], "traceback": text}})


def dedent(code):
    """Code that is indented as a whole means the same without."""
    first = next((it for it in code.splitlines() if it.strip()), "")
    if not first or first[0] not in " \t":
        return code
    import textwrap

    return textwrap.dedent(code)


def parsed(code, name):
    """The tree of some code, and the code as it was understood."""
    if not code.lstrip().startswith("%%"):
        try:
            return compile(code, name, "exec", FLAGS | ast.PyCF_ONLY_AST, dont_inherit=True), code
        except SyntaxError:
            if "!" not in code and "%" not in code:
                raise
    return part("magic").parsed(code, name)


def nobody(prompt=""):
    raise EOFError("nobody can answer input() here")


def main(orders, said):
    # Forks must not be lucky in the same way.
    if random := sys.modules.get("random"):
        random.seed()
    kernel = Kernel(said)
    shown.publish = kernel.publish
    builtins.input = nobody
    builtins.display = shown.display

    def stop(*_):
        if kernel.running:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    for number, name in ((1, "stdout"), (2, "stderr")):
        raw = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
        stream = Output(raw, "utf-8", "backslashreplace", line_buffering=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stdin = sys.__stdin__ = open(0, closefd=False)
    sys.path.insert(0, "")
    sys.argv = [""]
    sys.meta_path.append(shown.Stand())
    sys.meta_path.insert(0, shown.AfterImport())
    with open(orders, "rb", closefd=False) as orders:
        while line := orders.readline():
            order = json.loads(line)
            try:
                kernel.run(order["code"], order["env"])
            except KeyboardInterrupt:
                kernel.send({"done": True})
    sys.stdout.flush()
    os._exit(0)
