"""Measures a server through E2B's Python SDK; prints samples as one JSON document.

Arguments: `cold`, how often, how long rooms are made and ended, how large a file is, how many rooms
are made at once; or `warm`, how often, and the program that says how many rooms wait.
"""

import http.client
import http.server
import json
import os
import subprocess
import sys
import threading
import time
import urllib.parse

from e2b import Sandbox
from e2b_code_interpreter import Sandbox as Interpreter

MODE, RUNS = sys.argv[1], int(sys.argv[2])
SERVER = urllib.parse.urlparse(os.environ["E2B_API_URL"])
KEY = {"X-API-KEY": os.environ["E2B_API_KEY"], "Content-Type": "application/json"}
OWN = {"Authorization": "Bearer " + os.environ["E2B_API_KEY"], "Content-Type": "application/json"}
HELLO = {"argv": ["/bin/echo", "hi"]}
BLOCK = 1 << 20


def timed(work, count, ready=lambda: None):
    """Milliseconds; the first rounds fill caches and do not count. Each begins when it is `ready`."""
    samples = []
    for turn in range(count + 3):
        ready()
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
    return room.sandbox_id, heard[0]


def ask(connection, method, path, body=None):
    """A call of Bulkhead's own API about sandboxes."""
    body = None if body is None else json.dumps(body)
    connection.request(method, "/v1/sandboxes" + path, body, OWN)
    answer = connection.getresponse()
    said = answer.read()
    assert answer.status in (200, 201, 204), (answer.status, said)
    return json.loads(said or b"null")


def first_output_by_rest():
    """The same over Bulkhead's own API: a sandbox, and a program in it."""
    connection = http.client.HTTPConnection(SERVER.hostname, SERVER.port)
    room = ask(connection, "POST", "", {})["id"]
    assert ask(connection, "POST", f"/{room}/exec", HELLO)["stdout"] == "hi\n"
    done = time.perf_counter()
    ask(connection, "DELETE", f"/{room}")
    return room, done


def first_snippet():
    """Until a fresh room has run a snippet."""
    room = Interpreter.create(timeout=60)
    assert room.run_code("1 + 1").text == "2"
    done = time.perf_counter()
    room.kill()
    return room.sandbox_id, done


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


def together(count, client):
    """So many clients at once, each with a connection; how many seconds until all are done."""
    failed = []

    def run():
        try:
            client(http.client.HTTPConnection(SERVER.hostname, SERVER.port))
        except Exception as error:
            failed.append(error)

    began = time.perf_counter()
    clients = [threading.Thread(target=run) for _ in range(count)]
    for it in clients:
        it.start()
    for it in clients:
        it.join()
    if failed:
        raise failed[0]
    return time.perf_counter() - began


def creates_per_second():
    """Rooms made and ended by four clients that speak plain HTTP: the SDK itself would be measured."""
    until = time.perf_counter() + float(sys.argv[3])
    made = []

    def client(connection):
        while time.perf_counter() < until:
            connection.request("POST", "/v2/sandboxes", b'{"templateID": "base"}', KEY)
            room = json.load(connection.getresponse())["sandboxID"]
            connection.request("DELETE", f"/sandboxes/{room}", headers=KEY)
            assert connection.getresponse().read() == b""
            made.append(room)

    took = together(4, client)
    return len(made) / took


class Plain(http.server.SimpleHTTPRequestHandler):
    """A plain file server: what `python3 -m http.server` is, without its log."""

    def log_message(self, *_):
        pass


def rate(port, method, path, headers, body=None):
    """Mebibytes in a second, the best of three."""
    mebibytes = int(sys.argv[4])
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
        rates.append((mebibytes if body else size / BLOCK) / (time.perf_counter() - began))
        connection.close()
    return max(rates)


def files():
    mebibytes = int(sys.argv[4])
    room = Sandbox.create(timeout=600)
    blob = os.urandom(BLOCK)
    where = {
        "E2b-Sandbox-Id": room.sandbox_id,
        "E2b-Sandbox-Port": "49983",
        "X-Access-Token": room._envd_access_token,
    }
    body = lambda: (blob for _ in range(mebibytes))
    size = {"Content-Type": "application/octet-stream", "Content-Length": str(mebibytes * BLOCK)}
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


def side_by_side(jobs, work):
    """Does `work` to each job, eight at a time, and says how many seconds all took."""
    jobs = list(jobs)

    def client(connection):
        while jobs:
            try:
                job = jobs.pop()
            except IndexError:
                return
            work(connection, job)

    return together(8, client)


def crowd(count):
    """So many rooms at once: made, each runs a program, all are ended."""
    rooms = []

    def make(connection, _):
        rooms.append(ask(connection, "POST", "", {})["id"])

    def use(connection, room):
        assert ask(connection, "POST", f"/{room}/exec", HELLO)["stdout"] == "hi\n"

    yield f"{count} rooms: until all live", side_by_side(range(count), make)
    yield f"{count} rooms: a program in each", side_by_side(rooms, use)
    end = lambda connection, room: ask(connection, "DELETE", f"/{room}")
    yield f"{count} rooms: until none is left", side_by_side(rooms, end)


def made(work):
    """When `work` was done, whichever room it made."""
    return lambda: work()[1]


def cold():
    report["times"]["cold create until first output"] = timed(made(first_output), RUNS)
    report["times"]["cold create until first output, REST"] = timed(made(first_output_by_rest), RUNS)
    report["times"]["cold create until first snippet"] = timed(made(first_snippet), max(RUNS // 2, 1))
    report["times"].update(in_a_room(RUNS))
    report["rates"]["creates and deletes in a second"] = creates_per_second()
    report["rates"].update(files())
    count = int(sys.argv[5])
    if count:
        report["seconds"].update(crowd(count))


def warm():
    """Rooms that wait: each round begins when one does, and that it was taken is looked at."""

    wait = set()

    def ready():
        until = time.perf_counter() + 60
        wait.clear()
        while len(wait) < 4:
            assert time.perf_counter() < until, "no room waits"
            listed = subprocess.run([sys.argv[3], "pool", "ls", "--quiet"], capture_output=True, text=True)
            wait.update(listed.stdout.split())

    def taken(work):
        def checked():
            room, done = work()
            assert room in wait, f"{room} did not wait"
            return done

        return checked

    report["times"]["warm create until first output"] = timed(taken(first_output), RUNS, ready)
    report["times"]["warm create until first output, REST"] = timed(taken(first_output_by_rest), RUNS, ready)
    report["times"]["warm create until first snippet"] = timed(taken(first_snippet), max(RUNS // 2, 1), ready)


report = {"times": {}, "rates": {}, "seconds": {}}
{"cold": cold, "warm": warm}[MODE]()
print(json.dumps(report))
