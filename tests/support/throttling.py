"""A proxy before an object store: refuses requests or cuts their connections, and counts bytes of the others."""

from __future__ import annotations

import http.client
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

import pytest

CUT = -1
BODIES = {
    403: b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
    429: b"slow down",
    503: b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>",
}


@dataclass
class Proxy:
    """What the proxy does, and what it has seen.

    status_of   the status for a request by its number, from 0; 0 passes the request on, CUT ends its connection
    sent        paths of the PUT requests that were passed on
    fetched     bytes of each answer to a GET that was passed on, by path
    """

    url: str
    status_of: Callable[[int], int] = lambda number: 0
    count: int = 0
    refused: int = 0
    fetched: list[tuple[str, int]] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)

    def bytes_of(self, part: str) -> int:
        """Return the bytes fetched of files with `part` in their path."""
        return sum(size for path, size in self.fetched if part in path)


@contextmanager
def proxy_before_the_bucket() -> Iterator[Proxy]:
    """Start a proxy before the environment's object store; in the block the environment leads to the proxy."""
    host = urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc
    proxy = Proxy("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        """A body behind its head would wait 40 ms for the client's acknowledgement of the head."""

        def log_message(self, *_: object) -> None:
            pass

        def answer(self) -> None:
            number, proxy.count = proxy.count, proxy.count + 1
            body = self.body()
            status = proxy.status_of(number)
            if status:
                proxy.refused += 1
            if status == CUT:
                self.close_connection = True
            elif status:
                self.reply(status, {}, BODIES[status])
            if status:
                return
            onward = http.client.HTTPConnection(host)
            onward.request(self.command, self.path, body, dict(self.headers))
            found = onward.getresponse()
            data = found.read()
            if self.command == "GET" and "list-type" not in self.path:
                proxy.fetched.append((self.path, len(data)))
            elif self.command == "PUT":
                proxy.sent.append(self.path.partition("?")[0])
            self.reply(found.status, dict(found.getheaders()), data)
            onward.close()

        def body(self) -> bytes:
            """Return the bytes after the head, unchanged."""
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts, size = [], 1
            while size:
                parts.append(self.rfile.readline())
                size = int(parts[-1], 16)
                parts.append(self.rfile.read(size + len(b"\r\n")))
            return b"".join(parts)

        def reply(self, status: int, headers: dict[str, str], data: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            length = headers.get("Content-Length", str(len(data))) if self.command == "HEAD" else str(len(data))
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - names of http.server

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        # A context ends before that of the bucket, as fixtures' own changes of the environment do not.
        with pytest.MonkeyPatch.context() as changed:
            changed.setenv("AWS_ENDPOINT_URL", proxy.url)
            yield proxy
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
