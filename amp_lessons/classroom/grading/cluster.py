"""Grading a batch on a Dask cluster: notebooks go out as bytes, marks come back as JSON.

Each worker opens a batch of its own, with sandbox and judges, and keeps it until the last notebook
is done. All draw their inputs from the same secret. A chunk of a worker that is lost runs on
another one. What no worker could grade says so in its result, so nothing is lost.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from amp_lessons.classroom.grading import batch
from amp_lessons.classroom.grading.batch import GradingOptions
from amp_lessons.classroom.grading.collect import HandedIn
from amp_lessons.classroom.grading.kept import Results
from amp_lessons.classroom.grading.marks import Graded
from amp_lessons.classroom.grading.sandbox.limits import Limits
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.ipynb import NotebookError
from amp_lessons.core.terminal import line, warn

if TYPE_CHECKING:
    from distributed import Client, Future

PATIENCE = 10.0
"""Seconds to wait for the scheduler's answer."""

FIRST_WORKER = 60.0
"""Seconds to wait for the first worker: a cluster that grows on demand begins without any."""

CHUNK = 8
"""The most notebooks that a worker gets at a time, for each of its threads."""

LARGEST_CHUNK = 4 * 2**20
"""Bytes after which a chunk is full. Dask warns above 10 MB."""

AHEAD = 2
"""Chunks on their way for each worker: one that runs, and one that waits for it."""


class ClusterError(AmpLessonsError):
    """The cluster cannot be used. The message says what to do."""


# ---- on the instructor's side -------------------------------------------------------------------


@contextmanager
def open_batch(
    address: str, options: GradingOptions, lessons: Sequence[str] | None = None
) -> Iterator[ClusterBatch]:
    """Have every worker make its sandbox and its judges, for as long as the context lasts.

    Args:
        address: the scheduler's, such as ``"tcp://10.0.0.5:8786"``.
        options: as on one machine, but each worker runs as many notebooks at a time as it has
            threads, whatever ``jobs`` says.
        lessons: as on one machine.

    Raises:
        ClusterError: if no scheduler or no worker answers, if a worker has other versions, or
            cannot make the sandbox that was asked for.
        ResultsError: if the folder of results cannot be used.
    """
    results = None
    if options.results is not None:
        results = Results(options.results, options.conditions, options.seed)
    salt = results.salt if results else options.seed or secrets.token_hex(16)
    order: dict[str, Any] = {
        "id": secrets.token_hex(8),
        "limits": asdict(options.limits),
        "conditions": options.conditions,
        "trusted": sorted(options.trusted),
        "sandbox": options.sandbox,
        "salt": salt,
        "lessons": lessons,
    }
    if find_spec("distributed") is None:
        raise ClusterError("--dask needs Dask: pip install 'amp-lessons[cluster]'")
    with _quiet(), ExitStack() as stack:
        client = _connected(address)
        stack.callback(_disconnect, client, order["id"])
        sandboxes = _prepared(client, order)
        threads = client.nthreads()
        about = {**options.conditions, "seed": salt, "sandbox": sandboxes, "workers": len(threads)}
        yield ClusterBatch(client, line(address), order, threads, about, results)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's own tracebacks off the terminal: what they mean is said in one line."""
    import distributed  # noqa: F401 - sets these levels when it is imported

    logs = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    before = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for log, level in zip(logs, before, strict=True):
            log.setLevel(level)


def _disconnect(client: Client, identity: str) -> None:
    """Have the workers end the batch. If the scheduler is lost, they do that by themselves."""
    with suppress(Exception):
        if client.status == "running":
            client.run(_close, identity)
    with suppress(Exception):
        client.close(timeout=1)


def _connected(address: str) -> Client:
    from distributed import Client

    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # a time-out is an OSError
        raise ClusterError(
            f"no Dask scheduler answers at {line(address)} ({_first_line(error)}): start one with "
            "`dask scheduler`, and give the address that it prints"
        ) from error
    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER)
    except TimeoutError as error:
        client.close()
        raise ClusterError(
            f"the Dask scheduler at {line(address)} has no workers: start some with "
            f"`dask worker {line(address)}`"
        ) from error
    return client


def _prepared(client: Client, order: Mapping[str, Any]) -> str:
    """Have each worker open the batch. Returns how notebooks are kept apart there, in words."""
    said = client.run(_prepare, order, on_error="return")
    for worker, answer in said.items():
        if isinstance(answer, ModuleNotFoundError):
            raise ClusterError(f"{worker}: {answer}. Install AMP Lessons for that worker, too")
        if isinstance(answer, Exception):
            raise ClusterError(f"{worker}: {_first_line(answer)}")
        if "problem" in answer:
            raise ClusterError(f"{worker}: {answer['problem']}")
        if answer["missing"]:
            warn(f"{worker}: {answer['missing']}")
    return ", ".join(sorted({answer["sandbox"] for answer in said.values()}))


def _first_line(error: BaseException) -> str:
    return line(f"{type(error).__name__}: {error}".splitlines()[0])[:300].rstrip(": .")


@dataclass(frozen=True)
class Sent:
    """A notebook as it travels: no path, for the worker's disk is another one.

    Attributes:
        problem: why it could not be read here, or "".
    """

    name: str
    learner: str
    content: bytes
    progress: bytes | None
    beside: Mapping[str, str]
    problem: str = ""

    @property
    def whole(self) -> bytes:
        return batch.with_beside(self.content, self.beside)

    def as_handed_in(self, name: str) -> HandedIn:
        """For a batch on a worker, under a name that no other notebook of the chunk has."""
        return HandedIn(name, self.learner, self._read, lambda: self.progress, lambda: self.beside)

    def _read(self) -> bytes:
        if self.problem:
            raise NotebookError(self.problem)
        return self.content

    def not_graded(self, why: str) -> Graded:
        return Graded(self.name, self.learner, problems=(line(f"it was not graded: {why}"),))


def _sent(handed_in: HandedIn) -> Sent:
    content, progress, problem = b"", None, ""
    beside: Mapping[str, str] = {}
    try:
        content, progress = handed_in.read(), handed_in.progress()
        beside = dict(handed_in.beside())
    except NotebookError as error:
        problem = str(error)
    except Exception as error:
        problem = f"cannot be read: {_first_line(error)}"
    return Sent(handed_in.name, handed_in.learner, content, progress, beside, problem)


class ClusterBatch:
    """A batch whose workers are ready.

    Attributes:
        about: what a report should say about it, in JSON's types.
    """

    def __init__(
        self,
        client: Client,
        address: str,
        order: Mapping[str, Any],
        threads: Mapping[str, int],
        about: dict[str, Any],
        results: Results | None,
    ) -> None:
        self.about = about
        self._client, self._address, self._order = client, address, dict(order)
        self._workers, self._threads = len(threads), max(threads.values(), default=1)
        self._results = results
        self._running: dict[Future, list[Sent]] = {}
        self._warned = False

    def grade(self, handed_in: Sequence[HandedIn]) -> Iterator[Graded]:
        """Grade notebooks, each yielded as soon as its chunk is done, in no order.

        Raises:
            ResultsError: if a result cannot be written.
        """
        known: list[Graded] = []
        chunks = self._chunks(handed_in, known)
        more = True
        try:
            while more or self._running:
                while more and len(self._running) < AHEAD * self._workers:
                    chunk = next(chunks, None)
                    more = chunk is not None
                    yield from self._start(chunk or [])
                    yield from known
                    known.clear()
                for future in self._done():
                    yield from self._results_of(future, self._running.pop(future))
        finally:  # after Ctrl-C: what waits is dropped, and what runs ends with the batch
            for future in self._running:
                with suppress(Exception):
                    future.cancel()

    def _chunks(self, handed_in: Sequence[HandedIn], known: list[Graded]) -> Iterator[list[Sent]]:
        """What has to be graded, cut so that each worker gets some of it. What was graded before
        goes to ``known`` in passing."""
        fair = -(-len(handed_in) // (AHEAD * self._workers))
        most, chunk = min(fair, CHUNK * self._threads), list[Sent]()
        for each in handed_in:
            sent = _sent(each)
            trusted = sent.learner in self._order["trusted"]
            if self._results and (found := self._results.known(sent.name, sent.whole, trusted)):
                known.append(found)
                continue
            size = sum(len(one.content) for one in chunk) + len(sent.content)
            if chunk and (len(chunk) >= most or size > LARGEST_CHUNK):
                yield chunk
                chunk = []
            chunk.append(sent)
        if chunk:
            yield chunk

    def _start(self, chunk: list[Sent]) -> Iterator[Graded]:
        """Send a chunk. Yields only what no cluster is there for any more."""
        if not chunk:
            return
        try:
            future = self._client.submit(_grade_chunk, self._order, chunk, pure=False)
        except Exception as error:
            yield from self._not_graded(chunk, error)
        else:
            self._running[future] = chunk

    def _done(self) -> list[Future]:
        """Those that are done, however they ended; waits for one."""
        from distributed import wait

        if self._running:
            with suppress(Exception):  # a lost scheduler cancels them, and that is an answer, too
                wait(list(self._running), return_when="FIRST_COMPLETED")
        return [future for future in self._running if future.status != "pending"]

    def _results_of(self, future: Future, chunk: list[Sent]) -> Iterator[Graded]:
        """A chunk's results. A chunk that ended its workers is tried once more, one by one."""
        from distributed import KilledWorker

        try:
            answers = [Graded.from_json(json.loads(answer)) for answer in future.result()]
        except KilledWorker:
            if len(chunk) == 1:
                yield chunk[0].not_graded("each worker that ran it ended")
            for sent in chunk if len(chunk) > 1 else ():
                yield from self._start([sent])
        except (Exception, asyncio.CancelledError) as error:  # the second is none of the first
            yield from self._not_graded(chunk, error)
        else:
            for sent, graded in zip(chunk, answers, strict=True):
                if self._results:
                    trusted = sent.learner in self._order["trusted"]
                    self._results.keep(sent.whole, graded, trusted)
                yield graded

    def _not_graded(self, chunk: list[Sent], error: BaseException) -> Iterator[Graded]:
        why = f"the Dask cluster at {self._address} failed ({_first_line(error)})"
        if "Cancelled" in type(error).__name__:  # we cancel none that we still wait for
            why = f"the Dask scheduler at {self._address} was lost"
        if not self._warned:
            warn(f"{why}. What it had graded counts; with --results the same command does the rest")
        self._warned = True
        yield from (sent.not_graded(why) for sent in chunk)


# ---- on a worker --------------------------------------------------------------------------------


class _Standing:
    """The batch that this worker process has open: one, whichever chunk comes.

    One chunk runs at a time: `Batch.grade` uses the worker's threads itself.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.id = ""
        self.batch: batch.Batch | None = None
        self._stack = ExitStack()

    def opened(self, order: Mapping[str, Any]) -> batch.Batch:
        """The batch of this order. Hold the lock. Raises `ClusterError` for other versions."""
        if self.batch is None or self.id != order["id"]:
            self.closed()
            options = GradingOptions(
                Limits(**order["limits"]),
                _threads_here(),
                order["salt"],
                order["sandbox"],
                trusted=frozenset(order["trusted"]),
            )
            ours = options.conditions
            if ours != order["conditions"]:
                asked = order["conditions"]
                other = [f"{x} {ours[x]} and not {asked[x]}" for x in ours if ours[x] != asked[x]]
                raise ClusterError(f"this worker has {', '.join(other)}: install the same versions")
            self.batch = self._stack.enter_context(batch.open_batch(options, order["lessons"]))
            self.id = order["id"]
        return self.batch

    def closed(self) -> None:
        self.batch = None
        self._stack.close()


_standing = _Standing()


def _threads_here() -> int:
    from distributed import get_worker

    with suppress(ValueError):
        return int(get_worker().state.nthreads)
    return 1


async def _prepare(order: Mapping[str, Any]) -> dict[str, str]:
    """Open the batch before the first chunk, without holding up the worker's event loop."""

    def prepare() -> dict[str, str]:
        try:
            with _standing.lock:
                opened = _standing.opened(order)
        except AmpLessonsError as error:
            return {"problem": str(error)}
        return {"sandbox": opened.about["sandbox"], "missing": opened.missing}

    return await asyncio.to_thread(prepare)


def _grade_chunk(order: Mapping[str, Any], chunk: Sequence[Sent]) -> list[str]:
    """The results of a chunk as JSON texts, in its order."""
    numbered = [sent.as_handed_in(str(number)) for number, sent in enumerate(chunk)]
    with _standing.lock:
        found = {int(one.name): one for one in _standing.opened(order).grade(numbered)}
    named = [replace(found[number], name=sent.name) for number, sent in enumerate(chunk)]
    return [json.dumps(graded.to_json()) for graded in named]


async def _close(identity: str) -> None:
    """End the batch. A chunk that still runs is stopped."""
    if _standing.id == identity and _standing.batch is not None:
        _standing.batch.stop()

    def close() -> None:
        with _standing.lock:
            if _standing.id == identity:
                _standing.closed()

    await asyncio.to_thread(close)
