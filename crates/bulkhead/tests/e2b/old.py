"""The first generation of the SDK, which knows a server only by its domain and over TLS."""

import os
import socket
import ssl
import urllib.error
import urllib.request

look_up = socket.getaddrinfo
socket.getaddrinfo = lambda host, *rest, **more: look_up(
    "127.0.0.1" if str(host).endswith(".rooms.test") else host, *rest, **more
)

from e2b import Sandbox

room = Sandbox(timeout=60, metadata={"who": "old"}, envs={"FOO": "bar"})
assert room.is_running()
said = room.commands.run("echo $FOO; echo oops >&2")
assert (said.stdout, said.stderr, said.exit_code) == ("bar\n", "oops\n", 0)
room.files.write("dir/note.txt", "kept")
assert room.files.read("dir/note.txt") == "kept"
assert [it.name for it in room.files.list("dir")] == ["note.txt"]
again = Sandbox.connect(room.sandbox_id)
assert again.files.exists("dir/note.txt")
assert room.sandbox_id in [it.sandbox_id for it in Sandbox.list()]
room.set_timeout(120)

# A port inside, by its name.
room.commands.run("python3 -m http.server 8000", background=True, cwd="/home/user/dir")
trust = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
for _ in range(200):
    try:
        url = f"https://{room.get_host(8000)}/note.txt"
        assert urllib.request.urlopen(url, context=trust).read() == b"kept"
        break
    except urllib.error.HTTPError:
        pass
else:
    raise AssertionError("the port is not reached")

room.kill()
assert room.sandbox_id not in [it.sandbox_id for it in Sandbox.list()]
print("all well")
