"""Measures a server through E2B's Python SDK; prints samples as one JSON document.

Arguments: how often, how many rooms in a second are tried for how long, how large a file is.
"""

import http.client
import http.server
import json
import os
import sys
import threading
import time
import urllib.parse

from e2b import Sandbox
from e2b_code_interpreter import Sandbox as Interpreter

RUNS, SECONDS, MEBIBYTES = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
SERVER = urllib.parse.urlparse(os.environ["E2B_API_URL"])
KEY = {"X-API-KEY": os.environ["E2B_API_KEY"], "Content-Type": "application/json"}
BLOCK = 1 << 20


def timed(work, count):
    """Milliseconds; the first rounds fill caches and do not count."""
    samples = []
    for turn in range(count + 3):
        began = time.perf_counter()
        took = work()
        took = (time.perf_counter() if took is None else took) - began
        if turn >= 3:
            samples.append(took * 1e3)
    return samples


def first_output():
    """Until the first byte of a program in a fresh room."""
    heard = []
    room = Sandbox.create(timeout=60)
    room.commands.run("echo hi", on_stdout=lambda _: heard.append(time.perf_counter()))
    room.kill()
    return heard[0]


def first_snippet():
    """Until a fresh room has run a snippet."""
    room = Interpreter.create(timeout=60)
    assert room.run_code("1 + 1").text == "2"
    done = time.perf_counter()
    room.kill()
    return done


def program(room, connection):
    """Runs `/bin/true` by the words that the SDK uses, without the login shell that it starts."""
    start = json.dumps({"process": {"cmd": "/bin/true", "args": []}, "stdin": False}).encode()
    headers = {
        "Content-Type": "application/connect+json",
        "Connect-Protocol-Version": "1",
        "E2b-Sandbox-Id": room.sandbox_id,
        "E2b-Sandbox-Port": "49983",
        "X-Access-Token": room._envd_access_token,
    }
    body = b"\0" + len(start).to_bytes(4, "big") + start
    connection.request("POST", "/process.Process/Start", body, headers)
    assert b"exit status 0" in connection.getresponse().read()


def in_a_room(count):
    room = Interpreter.create(timeout=600)
    room.run_code("1")
    connection = http.client.HTTPConnection(SERVER.hostname, SERVER.port)
    yield "exec round trip", timed(lambda: program(room, connection), count)
    yield "commands.run of the SDK (bash -l)", timed(lambda: room.commands.run("true") and None, count)

    def snippet():
        context = room.create_code_context()
        assert room.run_code("1 + 1", context=context).text == "2"
        done = time.perf_counter()
        room.remove_code_context(context)
        return done

    yield "snippet in a fresh context", timed(snippet, count)
    yield "snippet in the same context", timed(lambda: room.run_code("1 + 1") and None, count)
    room.kill()


def creates_per_second():
    """Rooms made and ended by four clients that speak plain HTTP: the SDK itself would be measured."""
    until = time.perf_counter() + SECONDS
    made = []

    def client():
        connection = http.client.HTTPConnection(SERVER.hostname, SERVER.port)
        mine = 0
        while time.perf_counter() < until:
            connection.request("POST", "/v2/sandboxes", b'{"templateID": "base"}', KEY)
            room = json.load(connection.getresponse())["sandboxID"]
            connection.request("DELETE", f"/sandboxes/{room}", headers=KEY)
            assert connection.getresponse().read() == b""
            mine += 1
        made.append(mine)

    began = time.perf_counter()
    clients = [threading.Thread(target=client) for _ in range(4)]
    for it in clients:
        it.start()
    for it in clients:
        it.join()
    return sum(made) / (time.perf_counter() - began)


class Plain(http.server.SimpleHTTPRequestHandler):
    """A plain file server: what `python3 -m http.server` is, without its log."""

    def log_message(self, *_):
        pass


def rate(port, method, path, headers, body=None):
    """Mebibytes in a second, the best of three."""
    rates = []
    buffer = bytearray(BLOCK)
    for _ in range(3):
        connection = http.client.HTTPConnection("127.0.0.1", port, blocksize=BLOCK)
        began = time.perf_counter()
        connection.request(method, path, body() if body else None, headers)
        answer = connection.getresponse()
        assert answer.status == 200, (answer.status, answer.read())
        size = 0
        while got := answer.readinto(buffer):
            size += got
        rates.append((MEBIBYTES if body else size / BLOCK) / (time.perf_counter() - began))
        connection.close()
    return max(rates)


def files():
    room = Sandbox.create(timeout=600)
    blob = os.urandom(BLOCK)
    where = {
        "E2b-Sandbox-Id": room.sandbox_id,
        "E2b-Sandbox-Port": "49983",
        "X-Access-Token": room._envd_access_token,
    }
    body = lambda: (blob for _ in range(MEBIBYTES))
    size = {"Content-Type": "application/octet-stream", "Content-Length": str(MEBIBYTES * BLOCK)}
    yield "upload", rate(SERVER.port, "POST", "/files?path=blob", {**where, **size}, body)
    with open("blob", "wb") as file:
        for part in body():
            file.write(part)
    plain = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Plain)
    threading.Thread(target=plain.serve_forever, daemon=True).start()
    # By turns, so that both meet the same machine.
    ours, theirs = [], []
    for _ in range(2):
        ours.append(rate(SERVER.port, "GET", "/files?path=blob", where))
        theirs.append(rate(plain.server_port, "GET", "/blob", {}))
    yield "download", max(ours)
    yield "download from a plain file server", max(theirs)
    room.kill()


report = {"times": {}, "rates": {}}
report["times"]["cold create until first output"] = timed(first_output, RUNS)
report["times"]["cold create until first snippet"] = timed(first_snippet, max(RUNS // 2, 1))
report["times"].update(in_a_room(RUNS))
report["rates"]["creates and deletes in a second"] = creates_per_second()
report["rates"].update(files())
print(json.dumps(report))
