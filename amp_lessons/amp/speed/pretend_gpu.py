"""A pretend GPU: a queue and a clock, with no hardware behind them.

A real GPU works through a queue while Python runs ahead, and that is what misleads a benchmark. On
this one the true durations are known, because they are given, so a way to measure can be tried out
and graded on any machine. It has the traps of a real one: work that is only queued, programs that
are slow at first, spikes, a chip that slows down as it gets warm, data that takes time to make.
Its figures are invented for that purpose and say nothing about any real GPU.
"""

from __future__ import annotations

from collections.abc import Callable

MICROSECOND = 1e-6


class PretendGpu:
    """A device with a queue, a host beside it, and a clock that only they move.

    Args:
        asynchronous: whether a launch only queues the work, as on CUDA. If not, the host waits for
            each piece of work, as on a CPU.
        tf32: whether matrix products in FP32 may use TF32; a program that does is then faster.
        warming: by which share of its duration each further program slows the device down.
        launch_seconds: what it costs the host to launch a program.
        batch_seconds: what it costs the host to make a batch.
        copy_seconds: what it costs the device to receive it.

    Attributes:
        tf32: as above; can be switched.
        launches: how many programs have been launched, by name.
        readings: how often the clock was read, or an event was recorded.
    """

    def __init__(
        self,
        *,
        asynchronous: bool = True,
        tf32: bool = False,
        warming: float = 0.0,
        launch_seconds: float = 5 * MICROSECOND,
        batch_seconds: float = 0.0,
        copy_seconds: float = 0.0,
    ) -> None:
        self.tf32 = tf32
        self.launches: dict[str, int] = {}
        self.readings = 0
        self._asynchronous, self._warming = asynchronous, warming
        self._launch, self._batch, self._copy = launch_seconds, batch_seconds, copy_seconds
        self._host = self._device = 0.0  # when each is free again, in seconds

    def clock(self) -> float:
        """Seconds on the host's clock, like `time.perf_counter`. To read it takes a moment too."""
        self.readings += 1
        self._host += 0.1 * MICROSECOND
        return self._host

    def synchronize(self) -> None:
        """Let the host wait until the queue is empty, like `torch.cuda.synchronize`."""
        self._host = max(self._host, self._device)

    def event(self) -> Event:
        """A mark for the queue, like `torch.cuda.Event(enable_timing=True)`."""
        return Event(self)

    def make_batch(self) -> object:
        """Make a batch on the host and queue its copy to the device."""
        self._host += self._batch
        self._queue(self._copy)
        return object()

    def program(
        self,
        name: str,
        seconds: float,
        *,
        cold: int = 0,
        spike_every: int = 0,
        jitter: float = 0.0,
        skew: float = 1.0,
        fp32: bool = False,
    ) -> Callable[[object], None]:
        """A step that can be run on a batch, and whose true duration is known.

        Args:
            name: for `launches`.
            seconds: what it takes the device, once warm.
            cold: how many first runs take twenty times as long (compilation, choice of kernels).
            spike_every: one run in so many takes fifty times as long (others' work); 0: none.
            jitter: by which share the runs differ from ``seconds``, up and down: eleven different
                times, whose median and mean are ``seconds``, over and over.
            skew: how much further the slow runs are from ``seconds`` than the fast ones are, as
                with real times; then the mean is above the median, which stays ``seconds``.
            fp32: whether it is made of FP32 matrix products, which take half as long with TF32.
        """
        self.launches.setdefault(name, 0)

        def step(batch: object) -> None:
            run = self.launches[name]
            slow = 1 + self._warming * sum(self.launches.values())
            self.launches[name] += 1
            off = jitter * (run * 4 % 11 - 5) / 5
            factor = 1 + off * (skew if off > 0 else 1)
            if run < cold:
                factor = 20
            if spike_every and run % spike_every == spike_every - 1:
                factor = 50
            self._host += self._launch
            self._queue(seconds * slow * factor / (2 if fp32 and self.tf32 else 1))

        return step

    def _queue(self, seconds: float) -> None:
        """Put work behind what the device has to do, and begin no earlier than now."""
        self._device = max(self._device, self._host) + seconds
        if not self._asynchronous:
            self.synchronize()


class Event:
    """A mark in a pretend GPU's queue; `record` it, and ask later how far apart two are."""

    def __init__(self, gpu: PretendGpu) -> None:
        self._gpu = gpu
        self._reached: float | None = None

    def record(self) -> None:
        """Queue the mark: it is reached when all work before it is done."""
        gpu = self._gpu
        gpu.readings += 1
        gpu._device = self._reached = max(gpu._device, gpu._host)

    def synchronize(self) -> None:
        """Let the host wait until the device has reached the mark."""
        if self._reached is not None:
            self._gpu._host = max(self._gpu._host, self._reached)

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this mark to ``end``, as `torch.cuda.Event.elapsed_time` gives them.

        Raises:
            RuntimeError: if one of them was not recorded, or the device has not reached it yet.
        """
        if self._reached is None or end._reached is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        if max(self._reached, end._reached) > self._gpu._host:
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return 1e3 * (end._reached - self._reached)


def step_milliseconds(batch: int, launches: float, loading: float, computing: float) -> float:
    """How long a training step takes on a pretend machine: the slowest of three sets the pace.

    Args:
        batch: pictures in a batch.
        launches: milliseconds that the host needs to launch a step, whatever the batch.
        loading: milliseconds that the data loader needs for one picture.
        computing: milliseconds that the GPU needs for one picture.
    """
    return max(launches, loading * batch, computing * batch)
