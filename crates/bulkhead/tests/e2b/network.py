"""What a sandbox may reach, and who may reach it, by the options of the SDK."""

import http.server
import os
import threading
import urllib.error
import urllib.request

from e2b import ALL_TRAFFIC, Sandbox, SandboxException


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):
        pass


def serve():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def reaches(sandbox, port):
    line = f"curl --silent --max-time 20 http://host.bulkhead.internal:{port}/ || true"
    return sandbox.commands.run(line).stdout == "hello"


def host(port):
    return f"host.bulkhead.internal:{port}"


one, other = serve(), serve()

# Closed by default, and closed by name.
for options in [{}, {"allow_internet_access": False}]:
    with Sandbox.create(timeout=60, **options) as sandbox:
        assert not reaches(sandbox, one), options
        sandbox.kill()

# Only what is allowed; changed while it lives.
network = {"allow_out": [host(one)], "deny_out": [ALL_TRAFFIC]}
sandbox = Sandbox.create(timeout=60, network=network)
assert reaches(sandbox, one)
assert not reaches(sandbox, other)
assert sandbox.get_info().network["allow_out"] == [host(one)]
sandbox.update_network({"allow_out": [host(other)], "deny_out": [ALL_TRAFFIC]})
assert not reaches(sandbox, one)
assert reaches(sandbox, other)
assert sandbox.get_info().network["allow_out"] == [host(other)]
sandbox.update_network({"allow_internet_access": False})
assert not reaches(sandbox, other)
sandbox.kill()

# What cannot be held is the SDK's own exception, and nothing is made.
for network in [
    {"allow_out": ["a.example"]},
    {"deny_out": ["a.example"]},
    {"rules": {"a.example": [{"transform": {"headers": {"Host": "y"}}}]}},
]:
    try:
        Sandbox.create(timeout=60, network=network)
        raise AssertionError(network)
    except SandboxException as error:
        assert "400" in str(error), error

# Ports that only those reach who have the token.
sandbox = Sandbox.create(timeout=60, network={"allow_public_traffic": False})
assert sandbox.traffic_access_token
sandbox.commands.run("python3 -m http.server 8000", background=True, cwd="/tmp")
inside = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "8000"}
token = {"E2B-Traffic-Access-Token": sandbox.traffic_access_token}


def status(headers):
    request = urllib.request.Request(os.environ["E2B_SANDBOX_URL"] + "/", headers=headers)
    try:
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return error.code


assert status(inside) == 403
assert status({**inside, "E2B-Traffic-Access-Token": "no"}) == 403
for _ in range(200):
    if status({**inside, **token}) == 200:
        break
else:
    raise AssertionError("the port is not reached")
sandbox.kill()

print("all well")
