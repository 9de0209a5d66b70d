"""E2B's code interpreter for Python as it is, against the server."""

import base64
import os
import time

from e2b_code_interpreter import (
    InvalidArgumentException,
    NotFoundException,
    Sandbox,
    SandboxException,
    TimeoutException,
)


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


room = Sandbox.create(timeout=240, envs={"FROM_ROOM": "room"})

# Values, text, state.
ran = room.run_code("x = 41\nprint('to stdout')\nimport sys; print('to stderr', file=sys.stderr)\nx + 1")
assert ran.text == "42" and ran.results[0].is_main_result, ran
assert (ran.logs.stdout, ran.logs.stderr) == (["to stdout\n"], ["to stderr\n"]), ran
assert ran.execution_count == 1 and ran.error is None, ran
assert room.run_code("x += 1; x").text == "42"
assert room.run_code("'quotes'").text == "quotes"
assert room.run_code("x;").results == []
assert room.run_code("import asyncio\nawait asyncio.sleep(0.01)\n'awaited'").text == "awaited"
assert room.run_code("from pathlib import Path; str(Path.cwd())").text == "/home/user"
assert room.run_code("    y = 1\n    y").text == "1", "code that is indented as a whole"
assert room.run_code("import os; os.system('echo from below')").logs.stdout == ["from below\n"]
assert room.run_code("!echo shell").logs.stdout == ["shell\n"]
assert room.run_code("%pwd").text == "/home/user"
assert "héllo ✓ \U0001f600" in room.run_code("print('héllo ✓ \U0001f600')").logs.stdout[0]
room.files.write("module_here.py", "value = 7")
assert room.run_code("import module_here; module_here.value").text == "7"

# Errors.
error = room.run_code("def f():\n    return 1 / 0\nf()").error
assert (error.name, error.value) == ("ZeroDivisionError", "division by zero"), error
assert "line 2, in f" in error.traceback and "return 1 / 0" in error.traceback, error.traceback
assert "bulkhead" not in error.traceback, error.traceback
assert room.run_code("nobody").error.value == "name 'nobody' is not defined"
assert room.run_code("def f(:").error.name == "SyntaxError"
assert room.run_code("input()").error.name == "EOFError"
assert room.run_code("raise SystemExit(3)").error.name == "SystemExit"
assert room.run_code("class E(Exception):\n  def __str__(self): raise E\nraise E").error.name == "E"

# Everything that can be shown.
code = """
class Rich:
    def _repr_html_(self): return '<b>html</b>'
    def _repr_markdown_(self): return '*markdown*'
    def _repr_svg_(self): return '<svg/>'
    def _repr_png_(self): return b'png bytes'
    def _repr_jpeg_(self): return b'jpeg bytes'
    def _repr_pdf_(self): return b'pdf bytes'
    def _repr_latex_(self): return '$x$'
    def _repr_json_(self): return {'a': [1, None, float('nan')]}
    def _repr_javascript_(self): return 'alert(1)'
    def _repr_mimebundle_(self, include=None, exclude=None): return {'image/gif': b'gif'}, {}
    def __repr__(self): return 'plain'
Rich()
"""
[rich] = room.run_code(code).results
encoded = lambda it: base64.b64encode(it).decode()
assert (rich.text, rich.html, rich.markdown, rich.svg) == ("plain", "<b>html</b>", "*markdown*", "<svg/>")
assert (rich.png, rich.jpeg) == (encoded(b"png bytes"), encoded(b"jpeg bytes"))
assert (rich.pdf, rich.latex, rich.javascript) == (encoded(b"pdf bytes"), "$x$", "alert(1)")
assert rich.json == {"a": [1, None, None]}, rich.json
assert rich.extra == {"image/gif": encoded(b"gif")}, rich.extra
code = """
from IPython.display import HTML, Image, JSON, Latex, Markdown, display
display(HTML('<i>'), Markdown('# m'))
display({'text/latex': 'raw'}, raw=True)
Image(data=b'\\x89PNG')
"""
shown = room.run_code(code).results
assert [it.formats() for it in shown] == [["text", "html"], ["text", "markdown"], ["latex"], ["text", "png"]]
assert [it.is_main_result for it in shown] == [False, False, False, True]

# Heard as it comes, in callbacks.
heard = []
begun = time.monotonic()
room.run_code(
    "import time\nfor n in range(3):\n    print(n)\n    time.sleep(0.4)\n'value'\n1/0",
    on_stdout=lambda it: heard.append((it.line, it.error, it.timestamp, time.monotonic() - begun)),
    on_error=lambda it: heard.append(it.name),
)
assert [it[0] for it in heard[:3]] == ["0\n", "1\n", "2\n"] and heard[3] == "ZeroDivisionError", heard
assert heard[0][3] < 0.9 and heard[2][3] - heard[0][3] > 0.5, f"it came all at once: {heard}"
assert abs(heard[0][2] / 1e9 - time.time()) < 60, "time is in nanoseconds"
[result] = (results := []) or (room.run_code("6 * 7", on_result=results.append) and results)
assert result.text == "42"

# Variables of one piece only.
assert room.run_code("import os; os.environ['FROM_ROOM']").text == "room"
assert room.run_code("os.environ['FROM_ROOM']", envs={"FROM_ROOM": "piece"}).text == "piece"
assert room.run_code("os.environ['FROM_ROOM']").text == "room"
assert room.run_code("os.environ.get('NEW', 'none')", envs={"NEW": "1"}).text == "1"
assert room.run_code("os.environ.get('NEW', 'none')").text == "none"

# Contexts.
assert [it.language for it in room.list_code_contexts()] == ["python", "javascript"]
other = room.create_code_context(cwd="/tmp")
assert (other.language, other.cwd) == ("python", "/tmp")
assert room.list_code_contexts()[-1].id == other.id
assert room.run_code("x", context=other).error.name == "NameError"
assert room.run_code("import os; x = 'there'; os.getcwd()", context=other).text == "/tmp"
assert room.run_code("x").text == "42"
room.restart_code_context(other)
assert room.run_code("x", context=other).error.value == "name 'x' is not defined"
room.remove_code_context(other)
assert other.id not in [it.id for it in room.list_code_contexts()]
raises(NotFoundException, lambda: room.run_code("1", context=other))
raises(NotFoundException, lambda: room.restart_code_context("no-such-context"))
raises(InvalidArgumentException, lambda: room.run_code("1", context=other, language="python"))
assert "cwd '/no/such' does not exist" in str(raises(SandboxException, lambda: room.create_code_context(cwd="/no/such")))
randoms = set()
for _ in range(3):
    fresh = room.create_code_context()
    randoms.add(room.run_code("import random; random.random()", context=fresh).text)
    room.remove_code_context(fresh)
assert len(randoms) == 3, "forks share no luck"

# Other languages.
assert room.run_code("console.log('Hello'); process.cwd()", language="js").text == "/home/user"
assert room.run_code("const a = 1; a", language="javascript").text == "1"
assert room.run_code("const a = 2; a + 1", language="js").text == "3", "names may be declared again"
assert room.run_code("await Promise.resolve('top')", language="js").text == "top"
imported = room.run_code("import { readFileSync } from 'fs'\nconsole.log(typeof readFileSync)", language="js")
assert imported.logs.stdout == ["function\n"], imported
error = room.run_code("function f() { throw new TypeError('bad') }\nf()", language="js").error
assert (error.name, error.value) == ("TypeError", "bad") and "at f" in error.traceback, error
assert room.run_code("process.env.FROM_ROOM", language="js", envs={"FROM_ROOM": "js"}).text == "js"
assert room.run_code("$$.html('<b>')", language="js").results[0].html == "<b>"
assert room.run_code("echo $FROM_ROOM; y=5; pwd", language="bash").logs.stdout == ["room\n/home/user\n"]
assert room.run_code("echo $y $FROM_ROOM", language="bash", envs={"FROM_ROOM": "b"}).logs.stdout == ["5 b\n"]
assert room.run_code("echo $FROM_ROOM", language="bash").logs.stdout == ["room\n"]
failed = room.run_code("echo out; (exit 3)", language="bash")
assert (failed.logs.stdout, failed.error.value) == (["out\n"], "3"), failed
for absent in ("r", "java", "cobol"):
    error = raises(SandboxException, lambda: room.run_code("1", language=absent))
    assert f"language '{absent}' is not supported" in str(error), error
assert [it.language for it in room.list_code_contexts()] == ["python", "javascript", "bash"]

# What never ends is stopped when its client gives up, and the names are still there.
for language, loop, look in (
    ("python", "while True: pass", "x"),
    ("python", "import time; time.sleep(300)", "x"),
    ("js", "while (true) {}", "a"),
    ("bash", "while :; do :; done", "echo $y"),
):
    raises(TimeoutException, lambda: room.run_code(loop, language=language, timeout=1))
    ran = room.run_code(look, language=language, timeout=20)
    assert ran.error is None and ran.logs.stderr == [], (language, ran)
    assert ran.text in ("42", "2") or ran.logs.stdout == ["5\n"], (language, ran)
stubborn = "import time\nwhile True:\n    try: time.sleep(9)\n    except BaseException: pass"
raises(TimeoutException, lambda: room.run_code(stubborn, timeout=1))
ran = room.run_code("'x' in globals()", timeout=20)
assert ran.text == "False" and "variables are gone" in ran.logs.stderr[0], ran

# One that was killed is told, and works again.
for language, end, look in (
    ("python", "import os; os.kill(os.getpid(), 9)", "1 + 1"),
    ("python", "import os; os._exit(5)", "1 + 1"),
    ("js", "process.exit(4)", "1 + 1"),
    ("bash", "exit 6", "echo 2"),
):
    ran = room.run_code(end, language=language)
    assert ran.error.name == "ContextError" and "process of the context ended" in ran.error.value, ran
    ran = room.run_code(look, language=language)
    assert ran.text == "2" or ran.logs.stdout == ["2\n"], ran
ran = room.run_code("import os, signal; os.kill(os.getppid(), signal.SIGKILL); import time; time.sleep(60)")
assert ran.error.name == "ContextError", ran
assert room.run_code("2").text == "2", "the supervisor was killed and is there again"

# More than anybody wants to hear.
ran = room.run_code("for _ in range(200): print('x' * 1048575)", timeout=120)
assert 60 << 20 < sum(map(len, ran.logs.stdout)) <= 64 << 20, sum(map(len, ran.logs.stdout))
assert "the rest is dropped" in ran.logs.stderr[0], ran.logs.stderr
ran = room.run_code("'x' * (40 << 20)")
assert len(ran.text) < 1 << 20 and "too long" in ran.logs.stderr[0]
assert room.run_code("for n in range(2000): display(n)").error is None
assert room.run_code("1").text == "1"

# The interpreter is no program of the room's users.
assert room.commands.list() == [], room.commands.list()

# Only who has the token runs code.
if os.environ.get("E2B_SANDBOX_URL"):
    import urllib.error
    import urllib.request

    where = {"E2b-Sandbox-Id": room.sandbox_id, "E2b-Sandbox-Port": "49999"}
    ask = urllib.request.Request(
        os.environ["E2B_SANDBOX_URL"] + "/execute", b'{"code": "1"}', {**where, "Content-Type": "application/json"}
    )
    assert raises(urllib.error.HTTPError, lambda: urllib.request.urlopen(ask)).code == 401
    health = urllib.request.Request(os.environ["E2B_SANDBOX_URL"] + "/health", headers=where)
    assert urllib.request.urlopen(health).read() == b'"OK"'

# A room of the plain template has an interpreter, too, and a paused one keeps its names.
plain = Sandbox.create("base", timeout=60)
assert plain.run_code("kept = 1; kept").text == "1"
plain.pause()
again = Sandbox.connect(plain.sandbox_id)
assert again.run_code("kept + 1").text == "2"
assert again.kill()
raises(TimeoutException, lambda: again.run_code("1"))
assert room.kill()
print("all well")
