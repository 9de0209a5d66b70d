"""E2B's asynchronous code interpreter for Python: many pieces at once."""

import asyncio

from e2b_code_interpreter import AsyncSandbox


async def main():
    room = await AsyncSandbox.create(timeout=120)
    heard = []

    async def hear(message):
        heard.append(message.line)

    ran = await room.run_code("print('out')\n6 * 7", on_stdout=hear)
    assert (ran.text, heard) == ("42", ["out\n"]), (ran, heard)

    # One context runs one piece at a time, in order.
    await room.run_code("seen = []")
    code = "import time; seen.append({0}); time.sleep(0.05); seen.append({0})"
    await asyncio.gather(*(room.run_code(code.format(n)) for n in range(5)))
    seen = (await room.run_code("seen")).text
    numbers = [int(it) for it in seen.strip("[]").split(",")]
    assert numbers[::2] == numbers[1::2] and sorted(numbers[::2]) == [0, 1, 2, 3, 4], seen

    # Contexts run side by side.
    contexts = await asyncio.gather(*(room.create_code_context() for _ in range(8)))
    wait = "import time; began = time.time(); time.sleep(1); (began, time.time())"
    ran = await asyncio.gather(*(room.run_code(wait, context=it) for it in contexts))
    spans = [eval(it.text) for it in ran]
    assert max(it[0] for it in spans) < min(it[1] for it in spans), f"one after another: {spans}"

    # Somebody who gives up does not stop the others.
    slow = asyncio.create_task(room.run_code("import time; time.sleep(100)", context=contexts[0]))
    await asyncio.sleep(0.3)
    slow.cancel()
    assert (await room.run_code("'next'", context=contexts[0], timeout=20)).text == "next"

    # There is an end to contexts.
    refused = 0
    for _ in range(64):
        try:
            await room.create_code_context()
        except Exception as error:
            assert "at most 64 contexts" in str(error), error
            refused += 1
    assert refused > 0

    # A restart ends what runs.
    running = asyncio.create_task(room.run_code("import time; time.sleep(100)", context=contexts[1]))
    await asyncio.sleep(0.3)
    await room.restart_code_context(contexts[1])
    assert (await running).error.name == "ContextError"
    assert (await room.run_code("1", context=contexts[1])).text == "1"

    # A room that ends ends its streams.
    running = asyncio.create_task(room.run_code("import time; time.sleep(100)"))
    await asyncio.sleep(0.3)
    assert await room.kill()
    try:
        await running
    except Exception:
        print("all well")


asyncio.run(main())
