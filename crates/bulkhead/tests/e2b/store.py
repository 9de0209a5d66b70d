"""Secrets that the gateway puts into requests, and that nobody inside sees."""

import sys

from e2b import ALL_TRAFFIC, Sandbox, Secret, SecretNotFoundException, SandboxException
from e2b.exceptions import SecretException

key = sys.argv[1]

made = Secret.create("anthropic", "first", metadata={"team": "red"})
assert (made.name, made.version, made.metadata) == ("anthropic", 1, {"team": "red"})
changed = Secret.update("anthropic", key)
assert changed.version == 2 and changed.metadata == {"team": "red"}
assert Secret.get_info(made.secret_id).name == "anthropic"
assert [it.name for it in Secret.list().next_items()] == ["anthropic"]
try:
    Secret.create("anthropic", "again")
    raise AssertionError("made twice")
except SecretException:
    pass
try:
    Secret.get_info("nobody")
    raise AssertionError("found nobody")
except SecretNotFoundException:
    pass

headers = {"x-api-key": Secret.fill("anthropic"), "X-Extra": "set outside"}
host = "api.anthropic.com"
network = {
    "allow_out": [host],
    "deny_out": [ALL_TRAFFIC],
    "rules": {host: [{"transform": {"headers": headers}}]},
}
sandbox = Sandbox.create(timeout=60, network=network)
line = f"curl --silent --max-time 20 https://{host}/v1/messages --data '{{}}' -H 'x-api-key: forged'"
assert "It is done." in sandbox.commands.run(line).stdout
search = "{ env; cat /proc/*/environ; cat /run/bulkhead/* $HOME/.* /tmp/*; } 2>/dev/null || true"
assert key not in sandbox.commands.run(search).stdout
# What is set is changed while it lives, as a whole, and nothing of it comes in.
live = {**network, "rules": {host: [{"transform": {"headers": {"x-api-key": "live-" + key}}}]}}
sandbox.update_network(live)
assert "It is done." in sandbox.commands.run(line).stdout
[copy] = sandbox.fork()
assert "It is done." in copy.commands.run(line).stdout
copy.kill()
assert key not in sandbox.commands.run(search).stdout
sandbox.update_network(network)

# One that was made without headers trusts no gateway, and is told so.
plain = Sandbox.create(timeout=60, network={"allow_out": [host], "deny_out": [ALL_TRAFFIC]})
try:
    plain.update_network(live)
    raise AssertionError("headers for a sandbox that cannot have them")
except SandboxException as error:
    assert "400" in str(error) and "trust no gateway" in str(error), error
plain.kill()

# A copy has what it needs, though the room is gone that it was made of.
[copy] = sandbox.fork()
sandbox.kill()
[again] = copy.fork()
copy.kill()
assert "It is done." in again.commands.run(line).stdout
again.kill()

network["rules"] = {host: [{"transform": {"headers": {"x-api-key": Secret.fill("nobody")}}}]}
try:
    Sandbox.create(timeout=60, network=network)
    raise AssertionError("a secret that is not there was filled in")
except SandboxException as error:
    assert "400" in str(error), error

assert Secret.destroy("anthropic")
assert not Secret.destroy("anthropic")
print("all well")
