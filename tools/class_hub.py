"""A JupyterHub with the settings of `hub/`, and learners who use it by program.

The test of the classroom and its benchmark both need a hub that runs, a learner who logs in as a
browser does, and code that runs in that learner's kernel. JupyterHub's proxy has to be installed.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import requests
import websocket

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "hub/jupyterhub_config.py"
PROXY = "configurable-http-proxy"
TICK = 0.1  # seconds between two looks
GRACE = 30  # seconds that the hub gets to end its servers and its proxy


class HubError(Exception):
    """The hub or a learner's server did not start. The message ends with the hub's log."""


def find_proxy() -> str | None:
    """Where the configuration finds the proxy, or None."""
    ours = Path(sys.prefix, "node_modules/.bin", PROXY)
    return str(ours) if ours.exists() else shutil.which(PROXY)


@dataclass
class Hub:
    """A hub that runs. ``folder`` is what the settings call the class."""

    address: str
    folder: Path
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def password(self) -> str:
        return (self.folder / "password").read_text(encoding="utf-8").strip()

    def wait_for(self, happened: Any) -> Any:
        """Ask until the answer is true, and give it. Raises `HubError` if the hub has ended."""
        while not (answer := happened()):
            if self.process.poll() is not None:
                raise HubError(f"the hub ended: {self.last_words()}")
            time.sleep(TICK)
        return answer

    def last_words(self) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8").splitlines()[-20:])


@contextmanager
def running_hub(root: Path, *arguments: str) -> Iterator[Hub]:
    """A hub in a new class folder below ``root``, on free ports of this machine. It is ended, and
    every process that it started, when the block is left."""
    outside, inside, api = free_ports(3)
    address, log = f"http://127.0.0.1:{outside}", root / "hub.log"
    words = [
        *(sys.executable, "-m", "jupyterhub", "-f", str(CONFIG)),
        f"--JupyterHub.bind_url={address}",
        f"--JupyterHub.hub_port={inside}",
        f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{api}",
        *arguments,
    ]
    environment = os.environ | {"AMP_LESSONS_CLASS": str(root / "class")}
    with log.open("wb") as stream:
        process = subprocess.Popen(
            words, cwd=root, env=environment, stdout=stream, stderr=subprocess.STDOUT
        )
    hub = Hub(address, root / "class", process, log)
    try:
        hub.wait_for(lambda: answers(f"{address}/hub/health"))
        yield hub
    finally:
        end(process)


def answers(address: str) -> bool:
    with suppress(requests.RequestException):
        return requests.get(address, timeout=10).ok
    return False


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def end(process: subprocess.Popen[bytes]) -> None:
    """End the hub, which ends its servers and its proxy; and end those that it left."""
    with suppress(psutil.NoSuchProcess):
        below = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE)
        _, left = psutil.wait_procs(below, timeout=GRACE)
        for one in left:
            with suppress(psutil.NoSuchProcess):
                one.kill()
    process.kill()
    process.wait()


def _session() -> requests.Session:
    """Cookies are kept, connections are not: a proxy closes an idle one when it likes."""
    session = requests.Session()
    session.headers["Connection"] = "close"
    return session


@dataclass
class Learner:
    """One who uses the hub: logs in, opens the first page, runs code in a kernel."""

    hub: Hub
    name: str
    session: requests.Session = field(default_factory=_session)
    token: str = ""

    def __enter__(self) -> Learner:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    def log_in(self, password: str) -> requests.Response:
        """Fill in the form of the log-in page. The answer is the page that follows."""
        page = f"{self.hub.address}/hub/login"
        self.session.get(page)
        form = {"username": self.name, "password": password, "_xsrf": self._xsrf()}
        return self.session.post(page, data=form)

    def _xsrf(self) -> str:
        cookies = [x for x in self.session.cookies if x.name == "_xsrf" and x.path == "/hub/"]
        return str(cookies[0].value)

    def wait_for_server(self) -> None:
        """Wait until the server is ready that the hub began to start after the log-in."""
        api = f"{self.hub.address}/hub/api/users/{self.name}"
        made = self.session.post(f"{api}/tokens", headers={"X-XSRFToken": self._xsrf()})
        made.raise_for_status()
        self.token = made.json()["token"]

        def ready() -> bool:
            user = self.session.get(api, headers=self.as_me()).json()
            server = user["servers"].get("")
            if server is None:
                raise HubError(f"the server of {self.name} did not start: {self.hub.last_words()}")
            return bool(server["ready"])

        self.hub.wait_for(ready)

    def first_page(self) -> requests.Response:
        """What a browser gets that opens the learner's address."""
        return self.session.get(f"{self.hub.address}/user/{self.name}/")

    def api(self, path: str, method: str = "GET", **arguments: Any) -> Any:
        """Ask the learner's own Jupyter server. The answer is JSON, or None if it is empty."""
        address = f"{self.hub.address}/user/{self.name}/api/{path}"
        answer = self.session.request(method, address, headers=self.as_me(), **arguments)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def as_me(self) -> dict[str, str]:
        """The header that shows who asks."""
        return {"Authorization": f"token {self.token}"}

    def open_notebook(self, path: str) -> Kernel:
        """Read a notebook and start its kernel, as JupyterLab does."""
        self.api(f"contents/{path}")
        what = {"path": path, "name": path, "type": "notebook", "kernel": {"name": "python3"}}
        kernel = self.api("sessions", "POST", json=what)["kernel"]["id"]
        host = urlsplit(self.hub.address).netloc
        address = f"ws://{host}/user/{self.name}/api/kernels/{kernel}/channels"
        headers = [f"Authorization: {self.as_me()['Authorization']}"]
        return Kernel(websocket.create_connection(address, header=headers), kernel)


@dataclass
class Kernel:
    """A learner's kernel, over the web socket that JupyterLab uses.

    Attributes:
        raised: the exceptions of all that ran, each by its name.
    """

    socket: websocket.WebSocket
    id: str
    raised: list[str] = field(default_factory=list)

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def run(self, code: str) -> str:
        """Run code and give what it shows as text; an exception's name and text too."""
        asked = uuid.uuid4().hex
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
        header = {"msg_id": asked, "msg_type": "execute_request", "session": "", "version": "5.3"}
        header |= {"username": ""}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
        self.socket.send(json.dumps(message | {"channel": "shell"}))
        shown = ""
        while True:
            reply = json.loads(self.socket.recv())
            if reply["parent_header"].get("msg_id") != asked or reply["channel"] != "iopub":
                continue
            if reply["content"].get("execution_state") == "idle":
                return shown
            if reply["msg_type"] == "error":
                self.raised.append(reply["content"]["ename"])
            shown += text_of(reply)


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    if message["msg_type"] == "stream":
        return str(content["text"])
    if message["msg_type"] == "error":
        return f"{content['ename']}: {content['evalue']}\n"
    return str(content.get("data", {}).get("text/plain", ""))
