"""A learner's own records: what ``amp-lessons bench --record NAME`` wrote, and where it is.

They lie in ``records/`` in the workspace, beside ``notebooks/``. `records.load_records` loads
those that come with the course; the two are never mixed. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

from amp_lessons.amp.speed.records import Record, RecordError, read_record
from amp_lessons.core import catalogue

MANIFEST = ".amp-lessons.json"
"""The file that marks a workspace. `app.workspace` writes it, which nothing here may import."""

HOW = "`amp-lessons bench --record my_gpu` makes one on a machine with a CUDA GPU"


def own_folder() -> Path:
    """``records/`` in the workspace that the current folder lies in, else in the default one."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / MANIFEST).is_file():
            return folder / "records"
    root = catalogue.checkout()
    return (root / "workspace" if root else here / "amp-lessons") / "records"


def record_path(name: str) -> Path:
    """Where a record called ``name`` belongs.

    A bare name, such as ``"my_gpu"`` or ``"my_gpu.json"``, lies in `own_folder`. If that file
    exists, the new one gets a number, so nothing is overwritten: ``my_gpu-2.json``. A name with a
    folder, such as ``"./my_gpu.json"``, is taken as it is.
    """
    path = Path(name)
    if path.name != name:
        return path
    first = own_folder() / (name if path.suffix else f"{name}.json")
    names = (first.with_stem(f"{first.stem}-{n}") for n in count(2))
    return first if not first.exists() else next(path for path in names if not path.exists())


def own_records(
    folder: str | Path | None = None, tell: Callable[[str], object] = print
) -> list[Record]:
    """The records of a folder, by file name; a broken one is named in one line and left out.

    Args:
        folder: by default `own_folder`. It need not exist there yet.
        tell: hears of each file that is left out, and if there is no record at all.

    Raises:
        RecordError: if ``folder`` is given and there is no such folder.
    """
    place = own_folder() if folder is None else Path(folder)
    if not place.is_dir() and (folder is not None or place.exists()):
        raise RecordError(f"{place} is not a folder: name the folder that holds the records")
    found = []
    for path in sorted(place.glob("*.json")):
        try:
            found.append(read_record(path))
        except RecordError as error:
            tell(f"left out: {error}")
    if not found:
        where = "of your own yet" if folder is None else f"in {place}"
        tell(f"no record {where}: {HOW}")
    return found


def make_room(path: Path) -> None:
    """Make the folder of a record. Raises `RecordError` if that is not possible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error.strerror}") from error
