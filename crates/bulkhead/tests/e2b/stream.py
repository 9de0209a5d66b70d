"""Listens to a program that does not end, until somebody ends one of the two."""

from e2b import Sandbox

room = Sandbox.create(timeout=120)
ticking = room.commands.run("while :; do echo tick; sleep 0.05; done", background=True, timeout=0)
print(room.sandbox_id, ticking.pid, flush=True)
try:
    for _ in ticking:
        print("heard", flush=True)
    print("it ended", flush=True)
except Exception as error:
    print("cut off", flush=True)
