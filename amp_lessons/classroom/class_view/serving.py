"""The page, served to whom the instructor gives the address: read-only, and never stored.

There are two addresses, the page and the JSON that it asks for. Both need the token, and a request
without it learns nothing.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import socket
import sys
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from amp_lessons.classroom.class_view import page
from amp_lessons.classroom.class_view.folder import ClassError
from amp_lessons.classroom.class_view.room import ClassState
from amp_lessons.classroom.class_view.viewer import Viewer
from amp_lessons.core.terminal import warn

HERE = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::")
NO_TOKEN = "Open the address that amp-lessons class has printed: it ends with a token.\n"


class PageServer(ThreadingHTTPServer):
    """One class's page.

    Args:
        viewer: looks at the folder.
        ip: the address to listen on.
        port: 0 lets the system choose.

    Raises:
        ClassError: if it cannot listen there.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, viewer: Viewer, ip: str = HERE, port: int = 0) -> None:
        self.viewer, self.ip, self.token = viewer, ip, secrets.token_urlsafe(16)
        self._last = ClassState((), 0.0, ())
        self.address_family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        try:
            super().__init__((ip, port), partial(_Answer))
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ClassError(
                f"port {port} on {ip} cannot be used: {reason}. Name another one with --port"
            ) from error

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that has gone away is no news. Anything else gets one line."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            warn(f"the page could not be made: {type(error).__name__}: {error}")

    @property
    def address(self) -> str:
        """The address for a browser on this machine, or on one that reaches ``ip``."""
        host = {"0.0.0.0": HERE, "::": "::1"}.get(self.ip, self.ip)
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.server_address[1]}/?token={self.token}"

    def admits(self, token: str) -> bool:
        return secrets.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    def look(self) -> tuple[ClassState, str]:
        """The room, and why it is an older one, or ""."""
        try:
            self._last = self.viewer.look()
        except ClassError as error:
            return self._last, f"{error}. Below is what was seen last."
        return self._last, ""

    def html(self) -> str:
        room, trouble = self.look()
        return page.page(room, self.viewer.folder, live=True, trouble=trouble)

    def state(self, have: str) -> dict[str, str]:
        """The changing part of the page, unless its reader has it."""
        html = page.part(*self.look())
        revision = hashlib.sha256(html.encode()).hexdigest()[:16]
        return {"revision": revision} | ({"html": html} if have != revision else {})


class _Answer(BaseHTTPRequestHandler):
    """One request."""

    server: PageServer
    timeout = 10
    server_version, sys_version = "amp-lessons", ""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        given = parse_qs(asked.query, max_num_fields=10)
        if not self.server.admits(given.get("token", [""])[0]):
            self._send(HTTPStatus.FORBIDDEN, "text/plain", NO_TOKEN)
        elif asked.path == "/":
            self._send(HTTPStatus.OK, "text/html", self.server.html())
        elif asked.path == "/state.json":
            state = self.server.state(given.get("have", [""])[0])
            self._send(HTTPStatus.OK, "application/json", json.dumps(state))
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "There is nothing here.\n")

    do_HEAD = do_GET

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", f"{page.policy(True)}; frame-ancestors 'none'")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing: the address of each request holds the token."""
