"""The website on a server of this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar


class _Handler(SimpleHTTPRequestHandler):
    extensions_map: ClassVar = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".css": "text/css",
    }

    def log_message(self, *_: object) -> None:
        """Say nothing: pytest shows what a test prints."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a folder's files while the context lasts."""
    handler = partial(_Handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
