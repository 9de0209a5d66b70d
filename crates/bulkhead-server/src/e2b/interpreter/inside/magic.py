"""The few lines of a notebook that are not Python: `!command`, `%magic`, `%%magic`."""

import ast
import os
import re
import shlex
import subprocess
import sys
import time

shown = part("display")

FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
LINE = re.compile(r"(\s*)(?:([A-Za-z_][\w., ]*?)\s*=\s*)?([!%])(.+)")


class UsageError(Exception):
    """There is no such magic."""


def parsed(code, name):
    """The tree of some code, and the code as it was understood."""
    if code.lstrip().startswith("%%"):
        head, _, body = code.lstrip().partition("\n")
        word, _, rest = head[2:].strip().partition(" ")
        code = f"get_ipython().run_cell_magic({word!r}, {rest!r}, {body!r})"
    try:
        return compile(code, name, "exec", FLAGS, dont_inherit=True), code
    except SyntaxError:
        other = "\n".join(translated(it) for it in joined(code))
        if other == code:
            raise
        return compile(other, name, "exec", FLAGS, dont_inherit=True), other


def joined(code):
    """Lines, with those put together that a backslash joins after a `!` or `%`."""
    lines = iter(code.split("\n"))
    for line in lines:
        while LINE.match(line) and line.endswith("\\"):
            line = line[:-1] + next(lines, "")
        yield line


def translated(line):
    found = LINE.match(line)
    if not found:
        return line
    indent, name, sign, rest = found.groups()
    if sign == "!":
        method = "getoutput" if name or rest.startswith("!") else "system"
        call = f"get_ipython().{method}({rest.lstrip('!')!r})"
    else:
        word, _, rest = rest.partition(" ")
        call = f"get_ipython().run_line_magic({word!r}, {rest!r})"
    return f"{indent}{name} = {call}" if name else f"{indent}{call}"


def expanded(command):
    """A command with `{expression}` and `$name` put in, as notebooks do."""
    space = sys.modules["__main__"].__dict__

    def value(found):
        try:
            return str(eval(found[1] or found[2], space))
        except Exception:
            return found[0]

    return re.sub(r"\{([^{}]+)\}|\$([A-Za-z_]\w*)", value, command)


def shell(command, **more):
    sys.stdout.flush()
    sys.stderr.flush()
    return subprocess.run(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, **more)


class Shell:
    """What code finds by `get_ipython()`."""

    config = {}

    @property
    def user_ns(self):
        return sys.modules["__main__"].__dict__

    def system(self, command):
        code = shell(expanded(command)).returncode
        self.user_ns["_exit_code"] = code

    def getoutput(self, command):
        ran = shell(expanded(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return ran.stdout.decode("utf-8", "replace").splitlines()

    def magic(self, line):
        word, _, rest = line.lstrip("%").partition(" ")
        return self.run_line_magic(word, rest)

    def run_line_magic(self, name, line, *_):
        method = getattr(self, f"line_{name}", None)
        if method is None:
            raise UsageError(f"Line magic function `%{name}` not found.")
        return method(line.strip())

    def run_cell_magic(self, name, line, cell):
        method = getattr(self, f"cell_{name}", None)
        if method is None:
            raise UsageError(f"Cell magic `%%{name}` not found.")
        return method(line.strip(), cell)

    def line_pip(self, line):
        shell(f"{shlex.quote(sys.executable)} -m pip {expanded(line)}")

    def line_cd(self, line):
        os.chdir(os.path.expanduser(expanded(line) or "~"))
        print(os.getcwd())

    def line_pwd(self, _):
        return os.getcwd()

    def line_env(self, line):
        name, sign, value = line.partition("=") if "=" in line else line.partition(" ")
        if not line:
            return dict(os.environ)
        if not sign:
            return os.environ.get(name)
        os.environ[name.strip()] = value.strip()
        print(f"env: {name.strip()}={value.strip()}")

    line_set_env = line_env

    def nothing(self, _):
        """Set already, or of no use here."""

    line_matplotlib = line_load_ext = line_autoreload = line_config = line_reload_ext = nothing

    def line_time(self, line):
        return self.timed(line, "eval")

    def line_timeit(self, line):
        import timeit

        timer = timeit.Timer(line, globals=self.user_ns)
        number, took = timer.autorange()
        print(f"{took / number * 1e6:.3g} µs per loop ({number} loops)")

    def timed(self, code, _):
        began, cpu = time.perf_counter(), time.process_time()
        try:
            value = eval(compile(code, "<time>", "eval"), self.user_ns)
        except SyntaxError:
            value = exec(compile(code, "<time>", "exec"), self.user_ns)
        print(f"CPU times: {(time.process_time() - cpu) * 1e3:.3g} ms")
        print(f"Wall time: {(time.perf_counter() - began) * 1e3:.3g} ms")
        return value

    def cell_time(self, _, cell):
        return self.timed(cell, "exec")

    def cell_bash(self, _, cell):
        sys.stdout.flush()
        ran = subprocess.run(["bash", "-c", cell], stdin=subprocess.DEVNULL)
        if ran.returncode:
            raise subprocess.CalledProcessError(ran.returncode, "bash")

    cell_sh = cell_script = cell_bash

    def cell_writefile(self, line, cell):
        append = line.startswith("-a ")
        path = os.path.expanduser(line[3:] if append else line)
        with open(path, "a" if append else "w") as file:
            file.write(cell)
        print(f"{'Appending to' if append else 'Writing'} {path}")

    def cell_capture(self, _, cell):
        import contextlib
        import io

        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            exec(compile(cell, "<capture>", "exec"), self.user_ns)

    def cell_html(self, _, cell):
        shown.display(shown.HTML(cell))

    def cell_markdown(self, _, cell):
        shown.display(shown.Markdown(cell))

    def cell_latex(self, _, cell):
        shown.display(shown.Latex(cell))

    def cell_javascript(self, _, cell):
        shown.display(shown.Javascript(cell))

    def cell_svg(self, _, cell):
        shown.display(shown.SVG(cell))


SHELL = Shell()
