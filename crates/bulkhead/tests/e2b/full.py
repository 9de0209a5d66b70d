"""Sandboxes that were made ahead, and a server that has no place for more."""

from e2b import RateLimitException, Sandbox

one = Sandbox.create(timeout=60, envs={"WORD": "heard"}, metadata={"team": "a"})
line = "echo $WORD $E2B_SANDBOX_ID $HOME"
said = one.commands.run(line).stdout
assert said == f"heard {one.sandbox_id} /home/user\n", said
assert one.get_info().metadata == {"team": "a"}

two = Sandbox.create(timeout=60)
assert two.sandbox_id != one.sandbox_id
said = two.commands.run("echo ${WORD-none}").stdout
assert said == "none\n", said

try:
    Sandbox.create(timeout=60)
    raise SystemExit("a third sandbox was made")
except RateLimitException as error:
    assert "rooms.most" in str(error), error

print(one.sandbox_id, two.sandbox_id)
