"""The APIs of three models over TLS, behind a proxy such as companies have.

Each asks the agent for a tool call that writes a file, and then says that it is done. What was
asked, and with which key, is noted in a file.
"""
import http.server, json, socket, ssl, sys, threading

place, certificate, key = sys.argv[1:]
TEXT = "written by the agent\n"
# Looks inside for what must not be there; written so that it does not find itself.
SEARCH = """{ env; cat /proc/*/environ; } > inside 2>/dev/null
grep -rla "$(printf CAN)ARY0123456789" "$HOME" /run /tmp /etc . > found 2>/dev/null; echo searched >> inside"""


def stream(events):
    return "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)


def anthropic(ask):
    said = json.dumps(ask.get("messages", []))
    tools = {tool.get("name") for tool in ask.get("tools", [])}
    results = said.count('"tool_result"')
    calls = [("Write", {"file_path": f"{place}/hello.txt", "content": TEXT}), ("Bash", {"command": SEARCH})]
    if "Write" in tools and results < len(calls):
        name, wanted = calls[results]
        begin = {"type": "tool_use", "id": f"toolu_0{results}", "name": name, "input": {}}
        delta, reason = {"type": "input_json_delta", "partial_json": json.dumps(wanted)}, "tool_use"
        whole = dict(begin, input=wanted)
    else:
        begin = {"type": "text", "text": ""}
        delta, reason = {"type": "text_delta", "text": "It is done."}, "end_turn"
        whole = {"type": "text", "text": "It is done."}
    usage = {"input_tokens": 100, "output_tokens": 20}
    message = {"id": "msg_01", "type": "message", "role": "assistant", "model": ask.get("model", "m"),
               "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    if not ask.get("stream"):
        return "application/json", json.dumps(dict(message, content=[whole], stop_reason=reason))
    return "text/event-stream", stream([
        ("message_start", {"type": "message_start", "message": message}),
        ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": begin}),
        ("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}),
        ("content_block_stop", {"type": "content_block_stop", "index": 0}),
        ("message_delta", {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
                           "usage": {"output_tokens": 20}}),
        ("message_stop", {"type": "message_stop"}),
    ])


def openai(ask):
    items = ask.get("input", [])
    answered = any(item.get("type") == "function_call_output" for item in items)
    names = [tool.get("name") for tool in ask.get("tools", [])]
    write = f"printf 'written by the agent\\n' > {place}/hello.txt"
    if answered:
        item = {"type": "message", "role": "assistant", "id": "msg_1",
                "content": [{"type": "output_text", "text": "It is done."}]}
    elif "exec_command" in names:
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "exec_command",
                "arguments": json.dumps({"cmd": write})}
    else:
        name = "shell" if "shell" in names else "shell_command"
        command = write if name == "shell_command" else ["sh", "-c", write]
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name,
                "arguments": json.dumps({"command": command})}
    usage = {"input_tokens": 100, "input_tokens_details": None, "output_tokens": 20,
             "output_tokens_details": None, "total_tokens": 120}
    events = [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
    ]
    return "text/event-stream", stream([(event["type"], event) for event in events])


def gemini(ask, streamed):
    said = json.dumps(ask.get("contents", []))
    names = json.dumps(ask.get("tools", []))
    if "write_file" in names and "functionResponse" not in said:
        part = {"functionCall": {"name": "write_file",
                                 "args": {"file_path": f"{place}/hello.txt", "content": TEXT}}}
    else:
        part = {"text": "It is done."}
    answer = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
              "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}}
    if streamed:
        return "text/event-stream", f"data: {json.dumps(answer)}\n\n"
    return "application/json", json.dumps(answer)


class Models(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self):
        names = ["x-api-key", "authorization", "x-goog-api-key"]
        keys = [self.headers[name] for name in names if self.headers[name]]
        with open(f"{place}/../heard", "a") as heard:
            heard.write(f"{self.command} {self.headers.get('host')}{self.path} {' '.join(keys)}\n")

    def answer(self, kind, text, status=200):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        self.note()
        # Whoever wants a WebSocket is told that there is none, and asks in the usual way.
        if self.headers.get("upgrade"):
            return self.answer("application/json", "{}", 426)
        self.answer("application/json", '{"data": [], "models": []}')

    def do_POST(self):
        self.note()
        body = b""
        if "chunked" in self.headers.get("transfer-encoding", ""):
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = self.path.split("?")[0]
        try:
            ask = json.loads(body or "{}")
        except ValueError:
            ask = {}
        if path == "/v1/messages":
            self.answer(*anthropic(ask))
        elif path == "/v1/responses":
            self.answer(*openai(ask))
        elif path.endswith("GenerateContent") or path.endswith("generateContent"):
            self.answer(*gemini(ask, "stream" in path))
        elif path.endswith("count_tokens") or path.endswith("countTokens"):
            self.answer("application/json", '{"input_tokens": 10, "totalTokens": 10}')
        else:
            self.answer("application/json", "{}", 404)


def pipe(one, other):
    while data := one.recv(65536):
        other.sendall(data)
    other.shutdown(socket.SHUT_WR)


def tunnel(client, server):
    """Answers any CONNECT, whatever the name, with a way to the models."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = client.recv(1)
        if not byte:
            return
        head += byte
    world = socket.create_connection(server)
    client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    threading.Thread(target=quietly, args=(pipe, world, client), daemon=True).start()
    pipe(client, world)


def quietly(what, *args):
    try:
        what(*args)
    except OSError:
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Models)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
threading.Thread(target=server.serve_forever, daemon=True).start()
proxy = socket.create_server(("127.0.0.1", 0), backlog=128)
print(proxy.getsockname()[1], flush=True)
while True:
    client, _ = proxy.accept()
    threading.Thread(target=quietly, args=(tunnel, client, server.server_address), daemon=True).start()
