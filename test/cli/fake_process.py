"""A process that answers at a socket as loft does, from the files of a folder. No test.

    fake_process.py SOCKET FOLDER

A file NAME.status has the status and the text of a refusal. Whatever is posted is added to the file
`posted`. While there is a file `stuck`, nothing is answered.
"""

from __future__ import annotations

import os
import socketserver
import sys
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

FILES = {
    "/stats.json": "stats.json",
    "/slabs.json": "slabs.json",
    "/debug/pprof/heap": "heap.pb.gz",
    "/peak": "peak.pb.gz",
    "/purge": "purge.json",
    "/options": "options",
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder = Path()

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        with (self.folder / "posted").open("a") as file:
            file.write(f"{self.path} {body!r}\n")
        self.answer()

    def answer(self) -> None:
        while (self.folder / "stuck").exists():
            time.sleep(0.01)
        parts = urlsplit(self.path)
        name = FILES.get(parts.path, "none")
        if parts.query:
            name += f".{parts.query}"
        status, data = 200, b""
        refusal = self.folder / f"{name}.status"
        if refusal.exists():
            number, _, said = refusal.read_text().partition(" ")
            status, data = int(number), f"{said}\n".encode()
        elif (self.folder / name).exists():
            data = (self.folder / name).read_bytes()
        else:
            status, data = 404, b"there is no such address\n"
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def address_string(self) -> str:
        return ""

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


def main(path: str, folder: str) -> None:
    Handler.folder = Path(folder)
    with Server(path.replace("%p", str(os.getpid())), Handler) as server:
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
