"""Files that are written whole or not at all, and the folder where a learner's data lives."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from datetime import datetime
from pathlib import Path


def data_folder() -> Path:
    """Where progress is kept: ``$AMP_LESSONS_HOME``, else the platform's data folder."""
    home = os.environ.get("AMP_LESSONS_HOME")
    if home:
        return Path(home)
    import platformdirs

    return Path(platformdirs.user_data_dir("amp-lessons", appauthor=False))


def write_atomically(path: Path, content: bytes) -> None:
    """Write a whole file or nothing: readers see the old content or the new, never half.

    A link stays one, and what it points to is replaced; a file keeps its permissions.

    Raises:
        OSError: if it cannot be written; the old file is still there and no scrap is left.
    """
    path = path.resolve()
    if path.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if path.exists() and not path.is_file():  # without /dev/null the whole machine suffers
        raise OSError(errno.EEXIST, "Not an ordinary file")
    scrap = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(scrap, "wb") as stream:
            if path.exists():
                shutil.copymode(path, scrap)  # before there is anything to read
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(scrap, path)
    except BaseException:
        with suppress(OSError):  # the first error is the one to report
            scrap.unlink()
        raise


def keep_beside(path: Path, content: bytes, why: str) -> Path:
    """Write old content beside its file, under a name that is not taken. Returns the path."""
    stem = f"{path.stem}.{why}-{datetime.now():%Y%m%dT%H%M%S}"
    names = (f"{stem}{extra}.ipynb" for extra in ("", *(f"-{n}" for n in range(2, 1000))))
    kept = next(path.with_name(name) for name in names if not path.with_name(name).exists())
    write_atomically(kept, content)
    return kept
