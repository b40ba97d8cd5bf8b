"""Zip files, folders and progress files that learners hand in, broken and hostile."""

from __future__ import annotations

import io
import json
import os
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

from hostile.machine import Around
from hostile.sheets import NAMES, Kind, Outcome, Sheet, Submission, notebook

SHEET = "01_number_formats_exercises.ipynb"


def zipped(
    name: str,
    tries: str,
    write: Callable[[zipfile.ZipFile, Around], None],
    outcome: Outcome | None = None,
    kind: Kind = "hostile",
    change: Callable[[bytes], bytes] = bytes,
) -> Submission:
    """A zip file in the learner's folder."""

    def put(folder: Path, around: Around) -> None:
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            write(archive, around)
        (folder / "handed_in.zip").write_bytes(change(content.getvalue()))

    return Submission(name, kind, tries, put, outcome or Outcome())


def _right(archive: zipfile.ZipFile, name: str = SHEET) -> None:
    archive.writestr(name, Sheet().to_bytes())


def _named(*names: str) -> Callable[[zipfile.ZipFile, Around], None]:
    def write(archive: zipfile.ZipFile, _: Around) -> None:
        for name in names:
            _right(archive, name)

    return write


def _zeros(archive: zipfile.ZipFile, _: Around) -> None:
    with archive.open(SHEET, "w", force_zip64=True) as file:
        for _ in range(256):
            file.write(bytes(2**20))


def _many_zeros(archive: zipfile.ZipFile, _: Around) -> None:
    for number in range(12):
        archive.writestr(f"{number}.bin", bytes(50 * 2**20))
    _right(archive)


def _link(to: str | None) -> Callable[[zipfile.ZipFile, Around], None]:
    def write(archive: zipfile.ZipFile, around: Around) -> None:
        entry = zipfile.ZipInfo(SHEET)
        entry.create_system = 3
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, to or around.neighbour)

    return write


def _through_a_link(archive: zipfile.ZipFile, around: Around) -> None:
    """A folder that is a link, then a file in it: unpacked, it would be written elsewhere."""
    entry = zipfile.ZipInfo("out")
    entry.create_system = 3
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive.writestr(entry, around.victim)
    _right(archive, f"out/{SHEET}")


def _nested(archive: zipfile.ZipFile, _: Around) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as inner:
        _right(inner)
    for _ in range(20):
        outer = io.BytesIO()
        with zipfile.ZipFile(outer, "w", zipfile.ZIP_DEFLATED) as inner:
            inner.writestr("inner.zip", content.getvalue())
        content = outer
    archive.writestr("inner.zip", content.getvalue())
    _right(archive)


def _false_size(content: bytes) -> bytes:
    """The directory says that the entry holds 10 bytes."""
    directory = content.rindex(b"PK\x01\x02")
    return content[: directory + 24] + struct.pack("<I", 10) + content[directory + 28 :]


def _encrypted(content: bytes) -> bytes:
    """The flag that says that a password is needed."""
    directory = content.rindex(b"PK\x01\x02")
    changed = bytearray(content)
    changed[directory + 8] |= 1
    changed[6] |= 1
    return bytes(changed)


def _many_empty(archive: zipfile.ZipFile, _: Around) -> None:
    for number in range(30_000):
        archive.writestr(zipfile.ZipInfo(f"{number}.txt"), b"")


def folder_of(
    name: str,
    tries: str,
    make: Callable[[Path, Around], None],
    outcome: Outcome | None = None,
    kind: Kind = "hostile",
) -> Submission:
    """Files of any kind in the learner's folder."""
    return Submission(name, kind, tries, make, outcome or Outcome())


def _with_progress(content: bytes) -> Callable[[Path, Around], None]:
    def make(folder: Path, _: Around) -> None:
        notebook(folder, Sheet().to_bytes())
        (folder / "progress.json").write_bytes(content)

    return make


def _progress_fifo(folder: Path, _: Around) -> None:
    notebook(folder, Sheet().to_bytes())
    os.mkfifo(folder / "progress.json")


def _progress_link(folder: Path, _: Around) -> None:
    notebook(folder, Sheet().to_bytes())
    (folder / "progress.json").symlink_to("/dev/zero")


def _zip_fifo(folder: Path, _: Around) -> None:
    notebook(folder, Sheet().to_bytes())
    os.mkfifo(folder / "more.zip")


def _zip_link(folder: Path, around: Around) -> None:
    """A link to a zip file of somebody else's."""
    other = Path(around.home).parent / "private.zip"
    with zipfile.ZipFile(other, "w") as archive:
        _right(archive)
    (folder / "mine.zip").symlink_to(other)


def _linked_folder(folder: Path, around: Around) -> None:
    notebook(folder, Sheet().to_bytes())
    (folder / "more").symlink_to(Path(around.neighbour).parent)
    (folder / "up").symlink_to("..")


def _nested_folders(folder: Path, _: Around) -> None:
    notebook(folder, Sheet().to_bytes())
    at = os.open(folder, os.O_RDONLY)
    for _ in range(1800):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


def _many_notebooks(folder: Path, _: Around) -> None:
    """They come before the names of others."""
    notebook(folder, Sheet().to_bytes())
    for number in range(21_000):
        (folder / f"{number}.ipynb").touch()


def _hidden(folder: Path, _: Around) -> None:
    notebook(folder, Sheet().to_bytes())
    (folder / ".ipynb_checkpoints").mkdir()
    old = Sheet(solved=False).to_bytes()
    (folder / ".ipynb_checkpoints" / SHEET.replace(".ipynb", "-checkpoint.ipynb")).write_bytes(old)
    (folder / "__MACOSX").mkdir()
    (folder / "__MACOSX" / f"._{SHEET}").write_bytes(b"\0\5\x16\7")
    (folder / f"._{SHEET}").write_bytes(b"\0\5\x16\7")


GAVE_UP = {"exercises": {NAMES[0]: {"gave_up_at": "2026-01-01T10:00:00"}, "x": 3, "y": None}}
REFUSED = Outcome(refused="")
ARCHIVES = [
    zipped("zip", "a right sheet in a zip file", _named(SHEET), kind="broken"),
    zipped("zip-folders", "folders in a zip file", _named(f"a/b/{SHEET}"), kind="broken"),
    zipped("zip-up", "paths that lead up and out", _named(f"../../../victim/{SHEET}")),
    zipped("zip-absolute", "an absolute path", _named(f"/tmp/victim/{SHEET}")),
    zipped("zip-windows", "a Windows path", _named(f"C:\\..\\..\\{SHEET}")),
    zipped("zip-names", "terminal codes in a path", _named("\x1b[2J\n\u202e01.ipynb")),
    zipped("zip-bomb", "256 MB of zeros", _zeros, Outcome(refused="larger than")),
    zipped("zip-bomb-beside", "600 MB of zeros beside a right sheet", _many_zeros),
    zipped("zip-nested", "zip files in zip files", _nested, Outcome(results=2)),
    zipped("zip-link", "a link to a neighbour", _link(None), Outcome(refused="is a link")),
    zipped("zip-device", "a link to a device", _link("/dev/zero"), Outcome(refused="is a link")),
    zipped("zip-through", "a link and a file behind it", _through_a_link),
    zipped(
        "zip-false-size",
        "an entry that is longer than it says",
        _named(SHEET),
        Outcome(refused=""),
        change=_false_size,
    ),
    zipped(
        "zip-password",
        "an entry that needs a password",
        _named(SHEET),
        Outcome(refused="cannot be unpacked"),
        "broken",
        _encrypted,
    ),
    zipped(
        "zip-cut-off",
        "half a zip file",
        _named(SHEET),
        Outcome(refused="not a zip file"),
        "broken",
        lambda content: content[: len(content) // 2],
    ),
    zipped("zip-many", "30,000 empty files", _many_empty, Outcome(refused="more than")),
    zipped(
        "zip-text",
        "text with the suffix of a zip",
        _named(SHEET),
        Outcome(refused="not a zip file"),
        "broken",
        lambda _: b"This is my homework.",
    ),
    zipped("zip-empty", "an empty zip file", lambda *_: None, Outcome(refused=""), "broken"),
    folder_of(
        "gave-up", "a progress file", _with_progress(json.dumps(GAVE_UP).encode()), kind="broken"
    ),
    folder_of("progress-deep", "a nested progress file", _with_progress(b"[" * 100_000)),
    folder_of(
        "progress-types",
        "a progress file of other types",
        _with_progress(b'{"exercises": [1, {"gave_up_at": 3}], "n": ' + b"9" * 5000 + b"}"),
    ),
    folder_of("progress-text", "a progress file that isn't text", _with_progress(b"\xff\0" * 999)),
    folder_of(
        "progress-50-mb",
        "a progress file of 50 MB",
        _with_progress(b'{"exercises": {"a": [' + b"{}," * 16_000_000 + b"{}]}}"),
    ),
    folder_of("progress-fifo", "a FIFO as a progress file", _progress_fifo),
    folder_of("progress-device", "a device as a progress file", _progress_link),
    folder_of("zip-fifo", "a FIFO as a zip file", _zip_fifo, Outcome(results=2)),
    folder_of(
        "zip-to-neighbour", "a link to a neighbour's zip file", _zip_link, Outcome(refused="link")
    ),
    folder_of("linked-folder", "links to folders, one of them upwards", _linked_folder),
    folder_of("nested-folders", "1,800 nested folders", _nested_folders, Outcome(results=2)),
    folder_of(
        "crowd",
        "21,000 empty notebooks beside the right one",
        _many_notebooks,
        Outcome(refused="not all were looked at"),
    ),
    folder_of("hidden", "copies that editors and systems leave", _hidden, kind="broken"),
    folder_of("nothing", "an empty folder", lambda *_: None, Outcome(refused=""), "broken"),
    folder_of(
        "text-only",
        "a folder with the wrong files",
        lambda folder, _: (folder / "homework.docx").write_bytes(b"PK"),
        Outcome(refused=""),
        "broken",
    ),
]
