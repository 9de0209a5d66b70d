"""A world of one TLS server: says hello, serves a repository, and is a model's API."""
import http.server, json, os, ssl, sys

place, certificate, key = sys.argv[1:]
os.chdir(place)


class World(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        with open("../heard", "a") as heard:
            heard.write(f"{self.headers.get('host')} {self.path} {self.headers.get('x-api-key')}\n")
        super().do_GET()

    def do_POST(self):
        said = self.rfile.read(int(self.headers.get("content-length", 0)))
        with open("../heard", "a") as heard:
            heard.write(f"{self.headers.get('host')} {self.path} {self.headers.get('x-api-key')}\n")
        answer = json.dumps({"heard": len(said), "key": self.headers.get("x-api-key")}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


server = Server(("127.0.0.1", 0), World)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
# Whoever is slow to begin keeps nobody else waiting.
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_address[1], flush=True)
server.serve_forever()
