"""Measures llm-sandbox on Docker; prints samples as one JSON document. Arguments: how often."""

import json
import sys
import time

import docker
from llm_sandbox import SandboxSession

RUNS = int(sys.argv[1])
IMAGE = "bulkhead-bench:local"
client = docker.from_env()
first, again = [], []


def session():
    return SandboxSession(
        client=client,
        lang="python",
        image=IMAGE,
        keep_template=True,
        skip_environment_setup=True,
        workdir="/tmp",
        runtime_configs={"network_mode": "none", "user": "0:0", "command": ["/bin/sleep", "600"]},
    )


def measure():
    for turn in range(RUNS + 1):
        began = time.perf_counter()
        with session() as room:
            room.execute_command("echo hi")
            done = time.perf_counter()
            if turn > 0:
                first.append((done - began) * 1e3)
            if turn == RUNS:
                for _ in range(RUNS):
                    began = time.perf_counter()
                    room.execute_command("true")
                    again.append((time.perf_counter() - began) * 1e3)


try:
    measure()
except docker.errors.APIError as error:
    # The end of it says why.
    sys.exit(str(error.explanation)[-150:].replace("\n", " "))
print(json.dumps({"times": {"cold create until first output": first, "exec round trip": again}}))
