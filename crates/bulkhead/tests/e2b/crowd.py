"""Many rooms at once through E2B's asynchronous Python SDK."""

import asyncio
import sys

from e2b import AsyncSandbox


async def one(number):
    room = await AsyncSandbox.create(timeout=60)
    ran = await room.commands.run(f"echo {number}")
    assert ran.stdout == f"{number}\n", ran
    await room.files.write("note", str(number))
    assert await room.files.read("note") == str(number)
    assert await room.kill()


async def main(count):
    await asyncio.gather(*(one(number) for number in range(count)))
    print("all well")


asyncio.run(main(int(sys.argv[1])))
