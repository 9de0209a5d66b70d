"""E2B's Python SDK as it is, against the server: every line is something that a user relies on."""

import time
import urllib.request

from e2b import (
    AuthenticationException,
    CommandExitException,
    FileNotFoundException,
    InvalidArgumentException,
    Sandbox,
    SandboxException,
    SandboxNotFoundException,
    TimeoutException,
)


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


room = Sandbox.create(timeout=120, metadata={"who": "a b&c=d"}, envs={"FOO": "bar"})

# Programs.
ran = room.commands.run("echo out; echo err >&2; echo $FOO; pwd")
assert (ran.stdout, ran.stderr, ran.exit_code) == ("out\nbar\n/home/user\n", "err\n", 0), ran
failed = raises(CommandExitException, lambda: room.commands.run("exit 3"))
assert failed.exit_code == 3
raises(TimeoutException, lambda: room.commands.run("sleep 20", timeout=1))
heard = []
room.commands.run("printf 'a\\nb\\n'", on_stdout=heard.append)
assert "".join(heard) == "a\nb\n", heard
slow = room.commands.run("sleep 100", background=True)
# The one that took too long may need a moment to be gone.
for _ in range(100):
    if [it.pid for it in room.commands.list()] == [slow.pid]:
        break
    time.sleep(0.1)
else:
    raise AssertionError(room.commands.list())
assert room.commands.kill(slow.pid) and not room.commands.kill(slow.pid)
cat = room.commands.run("cat", background=True, stdin=True)
room.commands.send_stdin(cat.pid, "typed\n")
room.commands.close_stdin(cat.pid)
assert cat.wait().stdout == "typed\n"
raises(InvalidArgumentException, lambda: room.commands.run("true", cwd="/no/such/place"))
assert room.commands.run("pwd", cwd="/tmp").stdout == "/tmp\n"

# Who nobody in a sandbox is.
for call in (
    lambda: room.commands.run("id", user="root"),
    lambda: room.files.read("any", user="root"),
    lambda: room.files.write("any", "x", user="root"),
    lambda: room.files.list("/", user="root"),
):
    assert "nobody in it is root" in str(raises(InvalidArgumentException, call))
raises(AuthenticationException, lambda: room.commands.run("id", user="nobody-known"))
told = raises(SandboxException, lambda: Sandbox.create(mcp={"duckduckgo": {}}))
assert "no MCP gateway template" in str(told), told

# Files.
room.files.write("dir/näme", "text")
assert room.files.read("dir/näme") == "text"
blob = bytes(range(256)) * 4096
room.files.write("blob", blob)
assert room.files.read("blob", format="bytes") == blob
assert b"".join(room.files.read("blob", format="stream")) == blob
room.files.write_files([{"path": "one", "data": "1"}, {"path": "/tmp/two", "data": b"2"}])
assert room.commands.run("cat one /tmp/two").stdout == "12"
assert [it.path for it in room.files.list("dir")] == ["/home/user/dir/näme"]
assert room.files.make_dir("x/y") and not room.files.make_dir("x/y")
assert room.files.rename("one", "x/y/uno").path == "/home/user/x/y/uno"
info = room.files.get_info("x/y/uno")
assert (info.size, info.permissions, info.owner) == (1, "-rw-r--r--", "user"), info
room.files.remove("x")
assert not room.files.exists("x")
raises(FileNotFoundException, lambda: room.files.read("x"))
raises(InvalidArgumentException, lambda: room.files.read("dir"))
noted = room.files.write("noted", "x", metadata={"Who": "me", "two": "b c"})
assert noted.metadata == {"who": "me", "two": "b c"}, noted
assert room.files.get_info("noted").metadata == noted.metadata
assert [it.metadata for it in room.files.list(".") if it.name == "noted"] == [noted.metadata]
look = "import os; print(os.getxattr('noted', 'user.e2b.two').decode())"
assert room.commands.run(f'python3 -c "{look}"').stdout == "b c\n"
assert room.files.rename("noted", "again").metadata == noted.metadata
assert room.files.write("again", "y").metadata is None
assert room.files.get_info("again").metadata is None
raises(InvalidArgumentException, lambda: room.files.write("noted", "x", metadata={"a": "b" * 5000}))
watch = room.files.watch_dir("dir")
room.files.write("dir/new", "x")
kinds, patience = [], time.monotonic() + 10
while ("write", "new") not in kinds and time.monotonic() < patience:
    kinds += [(it.type.value, it.name) for it in watch.get_new_events()]
assert kinds[0] == ("create", "new") and ("write", "new") in kinds, kinds
watch.stop()
assert urllib.request.urlopen(room.download_url("dir/näme")).read() == b"text"

# The room itself.
assert room.is_running()
info = room.get_info()
assert info.metadata == {"who": "a b&c=d"}, info
found = Sandbox.list(query=None).next_items()
assert [it.sandbox_id for it in found] == [room.sandbox_id]
end = info.end_at
Sandbox.connect(room.sandbox_id, timeout=1)
assert room.get_info().end_at == end, "whoever connects must not shorten a life"
assert room.get_metrics()[0].mem_used > 0
assert room.pause()
assert not room.is_running()
again = Sandbox.connect(room.sandbox_id)
assert again.commands.run("cat dir/new").stdout == "x"
assert room.kill() and not room.kill()
assert not room.is_running()
raises(SandboxNotFoundException, lambda: Sandbox.connect(room.sandbox_id))
print("all well")
