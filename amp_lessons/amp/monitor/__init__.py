"""Watching a training loop with real values: what breaks, where, and what FP16 would make of it.

Begin with `amp_lessons.monitor(model, scaler)`. `watching` holds the monitor, `report` what it
tells; the rest is how it finds out.

A STEP ends with ``scaler.update()``. Without a scaler it ends with the first ``optimizer.step()``
after a backward pass. A loop that has another idea of a step calls ``seen.step()`` where one ends.

WHAT IT TELLS. Which op and line made the first inf or NaN; what FP16 (``format=``) would do to the
activations and gradients; why GradScaler skipped a step. Gradients are counted with the loss scale
divided out, so the report can say which scales would have kept them all.

- ``print(seen)`` or ``seen.summary(top=30)``: the report as text.
- ``seen`` as the last line of a cell: the report with a chart.
- ``seen.live()`` before the loop: a chart that follows the run.
- ``seen.modules``, ``.faults``, ``.skips``, ``.samples``, ``.to_json()``: the numbers.
- ``seen.alarms``: only what needs fixing; empty after a healthy run.

Mistakes in the loop that raise no error are alarms as well: GradScaler's methods in a wrong order,
``optimizer.step()`` in place of ``scaler.step(optimizer)``, a second loss that isn't scaled. Bounds
that you multiply by the scale, and gradients that you unscale by hand, raise no alarm. A few
skipped steps at the start are normal, and listed with their cause. A smaller scale doesn't cure NaN
from the slope of sqrt at 0, so one such step is an alarm. If a step is skipped at a scale that
worked before, and no cause is found, the report's first line says so.

HOW IT WORKS, AND WHAT IT COSTS. In each step the monitor notes what the model was given, and checks
the gradients once. One step in 50 is sampled (``every=50``): then it hooks every module and counts.
Of a tensor with more than 65,536 numbers it counts a sample, spread over all of it. If something in
the tensor overflows, it counts every number. The largest number is always exact.

If a step goes wrong, the monitor calls the model once more, logs each op, and finds the first one
that gave inf or NaN. That second run uses copies of the buffers and of the random state, so the run
goes on as it would have without it. It costs as much as a few steps. ``reruns=5`` limits how often
this happens.

On a CPU, ``python benchmarks/monitor.py`` measures what all this costs. On CUDA the monitor waits
for the GPU once a backward pass if there is no GradScaler. With one, it waits only where the scaler
waits anyway, and after a sampled step. It has not been run on CUDA yet. When the context ends, also
by an exception, every hook is gone. A copy of the model, or a file that is saved inside the
context, holds nothing of the monitor.

With a Trainer it needs no callback: the call that trains goes inside the context. It was run on a
CPU with tiny models in BF16: transformers 5.23 with gradient accumulation, and Lightning 2.6. Where
the Trainer makes its own GradScaler, give it to the monitor if you can reach it.

WHAT IT CAN'T SEE

- torch.compile. Ops inside a compiled model are hidden. Its outputs and the gradients of its
  parameters are counted, and after a bad step the op is looked for without the compiler. In a
  compiled training step the monitor sees no call at all, and says so: compile the model alone.
- DataParallel is refused: it runs copies. With DistributedDataParallel each process watches its own
  copy of the model. If only one process breaks, the others see NaN in the averaged gradients and
  say so.
- Sharded parameters (FSDP, tensor parallelism), and a model that talks to other processes. A second
  run would wait for them, so there is none. The loss is followed, ops in the model aren't named.
- torch.func. Calls inside vmap or grad are left out, with a note.
- ``clip_grad_value_`` imported by its name before the monitor opens, if it clips before
  ``unscale_``. ``clip_grad_norm_`` is noticed in any case.
- An inf that is gone before its module ends, such as 1 / inf = 0 in a normalisation of your own.
  The table of a sampled step then shows zeros in the module's output.
- A frozen forward pass, such as weights from a stale autocast cache. Each number is finite then.
- State that isn't a parameter, a buffer or a plain attribute. If forward() changes such a thing (a
  list, a file), the second run may differ from the first. Then the report says that the step stayed
  finite. An attribute that forward() changes has its new value in the second run.
- The loss, op by op, if another TorchDispatchMode is on while it is computed. ``loss=False`` turns
  this off.
- Several threads that train the same model at once.
- A second monitor on the same model is refused.
"""

from __future__ import annotations

import torch
from torch import nn

from amp_lessons.amp.monitor.arguments import MonitorError
from amp_lessons.amp.monitor.diagnosis import Advice
from amp_lessons.amp.monitor.findings import Fault, Sample, Seen, Skip
from amp_lessons.amp.monitor.watching import Monitor
from amp_lessons.amp.numbers.formats import Format
from amp_lessons.amp.scaling.scaler_log import ScalerLog

__all__ = ["Advice", "Fault", "Monitor", "MonitorError", "Sample", "Seen", "Skip", "monitor"]


def monitor(
    model: nn.Module,
    scaler: torch.amp.GradScaler | ScalerLog | None = None,
    *,
    every: int = 50,
    format: str | torch.dtype | Format = "float16",
    reruns: int = 5,
    loss: bool = True,
) -> Monitor:
    """Watch a training loop: what underflows and overflows, and which line made inf or NaN.

    Use it as a context, ``with amp_lessons.monitor(model, scaler) as seen:``, or keep what it
    returns and call its ``close()``. Then ``print(seen)``, ``seen.live()`` or ``seen.to_json()``.

    Args:
        model: the `torch.nn.Module` that trains.
        scaler: its `torch.amp.GradScaler` or `ScalerLog`, or None.
        every: one step in so many is sampled: all its activations and gradients are counted.
        format: the format to judge them by, as for `formats.get_format`. It doesn't have to be
            the one that the model trains in.
        reruns: how many bad steps are run once more, to find the op and the line. 0 for none.
        loss: also note the ops between the model's output and ``backward()``.

    Returns:
        A `Monitor`, which is already watching.

    Raises:
        MonitorError: if something else watches the model, or it can't be watched.
        ValueError: if there is no such format.
    """
    return Monitor(model, scaler, every=every, format=format, reruns=reruns, loss=loss)
