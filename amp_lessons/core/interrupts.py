"""Ending what runs: by Ctrl+C, from the first moment of a command on, and by a time limit.

Loading the command line takes a moment, and torch takes seconds. An exception in the middle of an
import would be a traceback at best, and be swallowed at worst. So as long as there is nothing to
clean up, Ctrl+C ends the process at once, with one line.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def end_at_once() -> None:
    """From now on Ctrl+C ends the process with one line. Where it is ignored, it stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def clean_up_first() -> None:
    """From now on Ctrl+C raises KeyboardInterrupt, as it usually does in Python."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def end_inside_c_too() -> None:
    """From now on Ctrl+C also ends a long call into C, where `end_at_once` has to wait for it.

    Python's handlers run between two lines of Python. Filling a weight of gigabytes is one line, so
    a thread waits for the signal's number, which Python writes to a pipe as soon as it comes.
    """
    if signal.getsignal(signal.SIGINT) is not _leave or os.name == "nt":
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader,), daemon=True).start()


def _watch(reader: int) -> None:
    while number := os.read(reader, 1):
        if number[0] == signal.SIGINT and signal.getsignal(signal.SIGINT) is _leave:
            _leave(signal.SIGINT, None)


_leaving = threading.Lock()


def _leave(number: int, _: FrameType | None) -> None:
    if not _leaving.acquire(blocking=False):
        return  # the other thread is about to end the process
    try:
        os.write(2, b"\namp-lessons: stopped with Ctrl+C\n")  # wherever the interpreter is now
    finally:
        os._exit(128 + number)


_waiting: list[int] = []


@contextmanager
def held(callbacks: tuple[str, ...] = ()) -> Iterator[None]:
    """Let Ctrl+C wait for a safe moment: the end of what stands inside, or a `let_in`.

    An import that ends in the middle leaves modules behind that are half made. And a
    KeyboardInterrupt in a function that C++ called back may end the process, or get lost there.
    Does nothing where Ctrl+C is not Python's own, or outside the main thread.

    Args:
        callbacks: names of functions that C++ calls. With names, Ctrl+C waits only while one of
            them runs; without, all the time. What waits must be short.
    """
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    ours = getattr(before, "__name__", "") == "came"  # one inside another
    if not main or not (ours or before is signal.default_int_handler):
        yield
        return

    def came(number: int, frame: FrameType | None) -> None:
        if callbacks and not _runs(frame, callbacks):
            raise KeyboardInterrupt
        _waiting.append(number)

    signal.signal(signal.SIGINT, came)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        waited = bool(_waiting)
        _waiting.clear()
    if waited:
        raise KeyboardInterrupt


def let_in() -> None:
    """Raise KeyboardInterrupt if Ctrl+C waits."""
    if _waiting:
        _waiting.clear()
        raise KeyboardInterrupt


def _runs(frame: FrameType | None, names: tuple[str, ...]) -> bool:
    while frame is not None:
        if frame.f_code.co_name in names:
            return True
        frame = frame.f_back
    return False


class TooSlow(BaseException):
    """A learner's code does not come to an end. No ``except Exception`` of theirs catches it."""

    def __str__(self) -> str:
        return "your code was still running, so the check stopped it. Does a loop never end?"


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TooSlow` in this thread where the code inside takes longer.

    It is raised at the next line of Python, on every platform; one call into C that never returns
    cannot be ended from inside its own process.
    """
    thread, over = threading.get_ident(), threading.Event()
    lock = threading.Lock()

    def stop() -> None:
        with lock:
            if not over.is_set():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread), ctypes.py_object(TooSlow)
                )

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            over.set()
        timer.cancel()
