"""A file of many MiB goes up as a stream, comes down as a stream, and is the same."""

import hashlib
import sys

from e2b import Sandbox

count = int(sys.argv[1])
block = bytes(range(256)) * 4096
expected = hashlib.sha256()


class Source:
    """So many blocks, of which one at a time is in memory."""

    def __init__(self):
        self.left = count

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        expected.update(block)
        return block


with open("big.source", "wb") as file:
    for chunk in Source():
        file.write(chunk)
room = Sandbox.create(timeout=600)
with open("big.source", "rb") as file:
    room.files.write("big", file, request_timeout=500)
inside = room.commands.run("sha256sum big", timeout=300).stdout.split()[0]
assert inside == expected.hexdigest(), inside
heard = hashlib.sha256()
for chunk in room.files.read("big", format="stream", request_timeout=500):
    heard.update(chunk)
assert heard.hexdigest() == inside
assert room.kill()
print("all well")
