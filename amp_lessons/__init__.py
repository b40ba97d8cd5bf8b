"""AMP Lessons: learn PyTorch Automatic Mixed Precision by predicting, running and explaining.

Importing this package is cheap: nothing here imports torch. Lessons import the module they need,
such as `amp_lessons.formats`; the command line lives in `amp_lessons.cli`.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def monitor(
    model: Any,
    scaler: Any = None,
    *,
    every: int = 50,
    format: Any = "float16",
    reruns: int = 5,
    loss: bool = True,
) -> Any:
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
        A `monitoring.Monitor`, which is already watching.

    Raises:
        monitoring.MonitorError: if something else watches the model, or it can't be watched.
        ValueError: if there is no such format.
    """
    watching = import_module("amp_lessons.monitoring")  # here, since it imports torch
    return watching.Monitor(model, scaler, every=every, format=format, reruns=reruns, loss=loss)
