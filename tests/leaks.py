"""Finds answers by what they say, in files of any name and kind.

A text is searched for as its runs of six words, so that line breaks, indents, quotes, comment signs
and JSON's escapes make no difference. A notebook in the sandbox runs this module too, so it imports
nothing that a learner's process can't.
"""

from __future__ import annotations

import html
import io
import json
import os
import re
import sysconfig
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import amp_lessons

WORDS = 6
SHARE = 2 / 3
"""An answer stands in a file that has this share of its runs. A short call or a common sentence
stands in many places, so one run says nothing."""
LEAST = 3
"""Runs. An answer with fewer can't be told from what anybody would write."""
UNREADABLE = "a file that can't be searched, since it is no text"

_WORD = re.compile(r"[^\W_]+")
_NO_WORDS = re.compile(r"\\[nt]|### (?:BEGIN|END) SOLUTION")

Files = Iterable[tuple[str, bytes]]


def runs(text: str) -> set[int]:
    """The runs of words in a text, as numbers that are the same in every process."""
    words = [word.encode() for word in _WORD.findall(_NO_WORDS.sub(" ", html.unescape(text)))]
    last = len(words) - WORDS + 1
    return {crc32(b" ".join(words[start : start + WORDS])) for start in range(last)}


class Search:
    """A search for answers.

    Args:
        answers: the runs of each answer that tell it from what may be seen, by its label.
    """

    def __init__(self, answers: Mapping[str, Set[int]]) -> None:
        self.answers = {label: some for label, some in answers.items() if len(some) >= LEAST}
        self._with: dict[int, list[str]] = defaultdict(list)
        for label, some in self.answers.items():
            for run in some:
                self._with[run].append(label)

    def leaks(self, files: Files) -> dict[str, list[str]]:
        """The answers that stand in each file, by the file's name.

        Args:
            files: names and contents. Archives are searched, too.
        """
        found: dict[str, list[str]] = {}
        for name, content in files:
            texts = list(_texts(content))
            there = set().union(*(runs(text) for text in texts if text is not None))
            counts = Counter(label for run in there for label in self._with.get(run, ()))
            labels = [each for each, n in counts.items() if n >= SHARE * len(self.answers[each])]
            if labels or None in texts:
                found[name] = sorted(labels) + [UNREADABLE] * (None in texts)
        return found


def within_reach() -> Files:
    """Every file that this process can open, but for the system's and those of other packages."""
    python = sysconfig.get_path("stdlib")
    site = {*map(sysconfig.get_path, ("purelib", "platlib")), f"{python}/site-packages"}
    system = {f"/{name}" for name in ("bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr")}
    others = {path for folder in site for path in _of_other_packages(Path(folder))}
    tops = {Path(each) for each in ("/", *site, os.path.dirname(amp_lessons.__file__))}
    without = {*map(Path, (*system, "/proc", "/sys", python)), *others}
    for top in tops:
        for place, folders, names in os.walk(top):
            here = Path(place)
            folders[:] = [name for name in folders if not {here / name} & (without | tops)]
            for path in (here / name for name in names):
                with suppress(OSError):
                    if path not in others and path.is_file():
                        yield str(path), path.read_bytes()


def _of_other_packages(site: Path) -> Iterator[Path]:
    """What they have installed: files and whole folders."""
    for record in site.glob("*.dist-info/RECORD"):
        if record.parent.name.startswith("amp_lessons-"):
            continue
        yield record.parent
        for line in record.read_text(encoding="utf-8").splitlines():
            path = line.partition(",")[0]
            if path.startswith(".."):
                yield Path(os.path.normpath(site / path))
            elif not path.startswith("__pycache__"):
                yield site / path.partition("/")[0]


def _texts(content: bytes) -> Iterator[str | None]:
    """What a person could read in a file; None for a part that isn't text, such as a .pyc file."""
    if content.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for inside in archive.namelist():
                yield from _texts(archive.read(inside))
        return
    try:
        text = content.decode("utf-8") if b"\0" not in content[:4096] else None
    except UnicodeDecodeError:
        text = None
    try:
        yield "\n".join(_strings(json.loads(text or "")))
    except ValueError:
        yield text


def _strings(data: object) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield key
            yield from _strings(value)
    elif isinstance(data, list):
        for value in data:
            yield from _strings(value)
