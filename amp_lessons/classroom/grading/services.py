"""Processes of our own that work for the grader: one reads notebooks, others judge.

Both are handed what strangers wrote, as bytes, and may be made slow or big by it. In a process of
its own that costs one submission, and neither the grader's memory nor its attention. A service that
takes too long or ends is started again.
"""

from __future__ import annotations

import os
import queue
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from amp_lessons.classroom.grading import frames

BUSY = 10.0
"""How many times longer than its patience the grader waits, while others have the processor."""

_LOOK = 0.1  # seconds between two looks at the time

_OUT_OF_MEMORY = 77
"""The exit status of a service whose memory is used up."""


class ServiceError(Exception):
    """No answer came. The message says why, in words that fit behind "because"."""


class Service:
    """The grader's side: a process that answers questions one after the other.

    Args:
        module: what it runs.
        words: its arguments.
        memory: MiB that it may take.
    """

    def __init__(self, module: str, words: Sequence[str] = (), memory: int = 4096) -> None:
        self._command = [sys.executable, "-m", module, str(memory), *words]
        self._memory, self._lock = memory, threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._start()

    def ask(
        self, header: dict[str, Any], content: bytes, patience: float
    ) -> tuple[dict[str, Any], bytes]:
        """Its answer. May be called from several threads, which then wait for each other.

        Args:
            patience: seconds of the processor, from when the service is free. On a machine that
                has much else to do, they may last up to `BUSY` times as long.

        Raises:
            ServiceError: if there is none.
        """
        with self._lock:
            process = self._process or self._start()
            try:
                return self._answer(process, header, content, patience)
            except OSError as error:
                used_up = process.poll() == _OUT_OF_MEMORY
                self.close()
                memory = f"it takes more than {self._memory} MiB of memory"
                raise ServiceError(memory if used_up else str(error)) from error

    def _start(self) -> subprocess.Popen[bytes]:
        """Start it with a temporary folder of its own: libraries leave things there."""
        self._folder = tempfile.TemporaryDirectory(prefix="amp-grade-", ignore_cleanup_errors=True)
        own = {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2", "TMPDIR": self._folder.name}
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | own,
            bufsize=0,
        )
        return self._process

    def _answer(
        self,
        process: subprocess.Popen[bytes],
        header: dict[str, Any],
        content: bytes,
        patience: float,
    ) -> tuple[dict[str, Any], bytes]:
        assert process.stdin is not None
        assert process.stdout is not None
        frames.write(process.stdin.fileno(), frames.packed(header, content))
        pipe, reader = process.stdout.fileno(), frames.FrameReader(trusted=True)
        end, before = time.monotonic() + BUSY * patience, _seconds_of(process.pid)
        while time.monotonic() < end:
            if not select.select([pipe], [], [], _LOOK)[0]:
                if _seconds_of(process.pid) - before >= patience:
                    break
                continue
            data = os.read(pipe, 2**20)
            if not data:
                process.wait()
                raise OSError("it ended")
            for frame in reader.feed(data):
                return frame
        raise OSError(f"it takes longer than {patience:g} s")

    def close(self) -> None:
        if self._process is None:
            return
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(OSError):
                stream.close()
        self._process.kill()
        self._process.wait()
        self._process = None
        self._folder.cleanup()


def _seconds_of(pid: int) -> float:
    """Seconds of the processor that a process has had; 0 if it has just ended."""
    import psutil

    with suppress(psutil.Error):
        times = _process(pid).cpu_times()
        return times.user + times.system
    return 0.0


@lru_cache(maxsize=64)
def _process(pid: int) -> Any:
    import psutil

    return psutil.Process(pid)


def serve(answer: Callable[[dict[str, Any], bytes], frames.Frame]) -> None:
    """The other side: answer the questions on standard input until it ends.

    It ends with the grader, also in the middle of an answer, and when its memory is used up.
    """
    pipe = os.dup(1)
    os.dup2(2, 1)  # what our own programs print is no answer
    _limit_memory(int(sys.argv[1]))
    questions: queue.SimpleQueue[frames.Frame] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(questions,), daemon=True).start()
    while True:
        try:
            given = answer(*questions.get())
        except MemoryError:
            os._exit(_OUT_OF_MEMORY)
        frames.write(pipe, frames.packed(*given))


def _listen(questions: queue.SimpleQueue[frames.Frame]) -> None:
    reader = frames.FrameReader(trusted=True)
    with suppress(BaseException):
        while data := os.read(0, 2**20):
            for frame in reader.feed(data):
                questions.put(frame)
    os._exit(0)


def _limit_memory(mebibytes: int) -> None:
    with suppress(ImportError, OSError, ValueError):  # Windows has no such limit
        import resource

        most = mebibytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
