"""Measures llm-sandbox on Docker; prints samples as one JSON document.

Arguments: how often, how many MiB the file has that is sent and fetched, and the image.
"""

import json
import os
import sys
import time

import docker
from llm_sandbox import SandboxSession

RUNS, MEBIBYTES, IMAGE = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
# It ends when it is told to; a first process does not by itself.
WAIT = ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 600 & wait"]
client = docker.from_env()


def session():
    return SandboxSession(
        client=client,
        lang="python",
        image=IMAGE,
        keep_template=True,
        skip_environment_setup=True,
        workdir="/tmp",
        runtime_configs={"network_mode": "none", "user": "0:0", "command": WAIT},
    )


def timed(work):
    """Milliseconds; the first round does not count."""
    samples = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        done = work()
        samples.append(((done or time.perf_counter()) - began) * 1e3)
    return samples[1:]


def first_output():
    with session() as room:
        assert room.execute_command("echo hi").stdout == "hi\n"
        return time.perf_counter()


def run(room, line):
    ended = room.execute_command(line)
    assert ended.exit_code == 0, ended


def rate(work):
    """Mebibytes in a second, the better of two."""
    rates = []
    for _ in range(2):
        began = time.perf_counter()
        work()
        rates.append(MEBIBYTES / (time.perf_counter() - began))
    return max(rates)


def fetch(room):
    """By its own call for the archive: unpacking that needs a Python which not every host has."""
    assert MEBIBYTES << 20 < len(room.get_archive("/tmp/blob")[0])


def measure():
    began = time.perf_counter()
    times = {"cold create until first output": timed(first_output)}
    rates = {"creates and deletes in a second": (RUNS + 1) / (time.perf_counter() - began)}
    with open("sent", "wb") as file:
        for _ in range(MEBIBYTES):
            file.write(os.urandom(1 << 20))
    with session() as room:
        times["exec round trip"] = timed(lambda: run(room, "true"))
        times["snippet in a fresh context"] = timed(lambda: run(room, "python3 -c 'print(1 + 1)'"))
        rates["upload"] = rate(lambda: room.copy_to_runtime("sent", "/tmp/blob"))
        rates["download"] = rate(lambda: fetch(room))
    return {"times": times, "rates": rates}


try:
    print(json.dumps(measure()))
except docker.errors.APIError as error:
    # The end of it says why.
    sys.exit(str(error.explanation)[-150:].replace("\n", " "))
