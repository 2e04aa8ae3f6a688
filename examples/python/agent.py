"""An agent in Python: HTTP/1.1 over the listening socket that weir passes as standard input."""

import json
import os
import socket
from http.server import BaseHTTPRequestHandler


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def respond(self):
        length = int(self.headers.get("content-length", 0))
        order = json.loads(self.rfile.read(length) or b"null")
        body = {"agent": os.getpid(), "path": self.path, "order": order}
        self.reply(200, json.dumps(body).encode())

    do_GET = do_POST = respond

    def do_OPTIONS(self):
        # weir probes agents with `OPTIONS *`.
        self.reply(200, b"")

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code="-", size="-"):
        pass  # weir records requests; standard error goes to weir's log.


listener = socket.socket(fileno=0)
while True:
    connection, _ = listener.accept()
    # One connection and one request at a time: other agents accept further ones.
    try:
        Handler(connection, ("weir", 0), None)
    except OSError:
        pass
    connection.close()
