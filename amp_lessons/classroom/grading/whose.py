"""Whose a folder or a file is, as far as its name tells.

Learning platforms put the learner's name into what they give out, learners name their own files,
and the course's folders have names that are nobody's. All of that is known here, and nothing is
opened.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePath, PurePosixPath

from amp_lessons.core import catalogue
from amp_lessons.core.terminal import line

LONGEST = 200
"""Characters of a name."""

ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
"""Endings of the archives that the grader opens."""

PACKED = frozenset((".7z", ".rar", ".gz", ".bz2", ".xz", ".zst", ".lz4", ".zipx", ".dmg", ".iso"))
"""Endings of other packed files."""

_CANVAS = re.compile(r"^(?P<who>[^_]+)(?:_LATE)?_\d+_\d+_")
_MOODLE = re.compile(r"^(?P<who>.+)_(?P<number>\d+)_assignsubmission_\w+$")
_GAP = r"[_. -]+"
_SHEET = re.compile(
    rf"(?:(?P<before>.+?){_GAP})?(?P<sheet>\d\d_[a-z0-9_]+?_exercises)(?:{_GAP}(?P<after>.+))?",
    re.DOTALL | re.IGNORECASE,
)
_NOBODY = re.compile(
    r"(?:[\W\d_]|copy|final|new|done|fixed|solved|solutions?|answers?|v(?=\d))*", re.IGNORECASE
)
"""What people and browsers add to a file's name: ``(1)``, ``-Copy1``, ``final``."""

_LESSONS = {name for lesson in catalogue.LESSONS for name in (lesson.id, lesson.slug)}
_COURSES = {"exercises", "notebooks", "solutions", "workspace", *_LESSONS}

_APART = re.compile(
    r"\..*|__.*|thumbs\.db|desktop\.ini|progress\.json|amp-lessons-handout\.json|roster\.(txt|md|json)"
    r"|.*_codes\.txt|.*\.(csv|tsv|xlsx?|ods)",
    re.IGNORECASE | re.DOTALL,
)


def key(name: str) -> str:
    """Equal for two spellings of one name: capitals, and accents as one character or as two."""
    return unicodedata.normalize("NFKC", line(name)).casefold()


def stem(file: str) -> str:
    """A file's name without its ending; ``.tar.gz`` is one."""
    for ending in ARCHIVES:
        if file.lower().endswith(ending) and len(file) > len(ending):
            return file[: -len(ending)]
    return PurePosixPath(file).stem


def is_archive(file: PurePath) -> bool:
    return file.name.lower().endswith(ARCHIVES)


def is_packed(file: PurePath) -> bool:
    """Whether this is an archive or a compressed file that nothing here opens."""
    return file.suffix.lower() in PACKED and not is_archive(file)


def is_notebook(file: PurePath) -> bool:
    return file.suffix.lower() == ".ipynb"


def is_the_courses(folder: str) -> bool:
    """Whether a folder has a name that the course or nbgrader gives it: it is no learner's."""
    name = folder.casefold()
    return name in _COURSES or bool((found := _SHEET.fullmatch(name)) and not _owner(found))


def is_apart(name: str) -> bool:
    """Whether a file or folder lies there for the instructor or the system: nobody hands it in."""
    return bool(_APART.fullmatch(name))


def of_folders(names: Iterable[str]) -> dict[str, str]:
    """The learner of each folder. Moodle calls them ``Jane Doe_123_assignsubmission_file``.

    Two people of one name keep Moodle's number, so that they stay two.
    """
    numbers: dict[str, set[str]] = defaultdict(set)
    names = list(names)
    for name in names:
        if found := _MOODLE.match(name):
            numbers[found["who"]].add(found["number"])
    result = {}
    for name in names:
        found = _MOODLE.match(name)
        who = found["who"] if found else name
        several = found is not None and len(numbers[who]) > 1
        result[name] = _short(f"{who} ({found['number']})" if found and several else who)
    return result


def of_folder(name: str) -> str:
    """The learner of one folder."""
    return of_folders([name])[name]


def of_file(name: str) -> str:
    """The learner of a file that lies in nobody's folder; if nothing tells, the file's stem."""
    return _short(told(name) or stem(name))


def told(name: str) -> str:
    """The learner whom a file's name surely tells, or "".

    Canvas says ``doejane_123_456_sheet.ipynb``, Moodle ``Jane Doe_123_assignsubmission_file.zip``,
    and people ``ada_01_number_formats_exercises.ipynb``.
    """
    plain = stem(name)
    for pattern, text in ((_CANVAS, name), (_MOODLE, plain)):
        if found := pattern.match(text):
            return found["who"]
    found = _SHEET.fullmatch(plain)
    return _owner(found) if found else ""


def may_tell(name: str) -> bool:
    """Whether a file's name may be somebody's: it is more than a sheet's, a number or a word such
    as "final"."""
    plain = stem(name)
    nobodys = plain.casefold() in _LESSONS or _NOBODY.fullmatch(plain)
    return bool(told(name)) or not (_SHEET.fullmatch(plain) or nobodys)


def sheet_of(name: str) -> str:
    """The same for two copies of one sheet: the sheet's name, or the file's without ``(1)``."""
    plain = stem(name).casefold()
    if found := _SHEET.fullmatch(plain):
        return found["sheet"]
    return re.sub(r"[_. -]*(?:\(\d+\)|copy\d*)$", "", plain)


def _owner(found: re.Match[str]) -> str:
    words = (found["before"] or "", found["after"] or "")
    return next((word for word in words if not _NOBODY.fullmatch(word)), "")


def _short(name: str) -> str:
    return unicodedata.normalize("NFC", line(name))[:LONGEST]
