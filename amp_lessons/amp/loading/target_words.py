"""``package.module:factory``, ``model.py:make`` and ``timm:create_model("resnet50")``: a target's
words, and the words for what somebody else's code raises. Nothing here needs torch.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amp_lessons.amp.loading.model_spec import LoadError

FAILURES = (Exception, SystemExit)
"""A script that calls sys.exit() must not end ours unheard."""

WEIGHTS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".onnx", ".h5")

_TARGET = re.compile(r"(?P<module>.+?):(?P<path>[A-Za-z_][\w.]*)(?P<call>\(.*\))?", re.DOTALL)


@dataclass(frozen=True)
class Target:
    """The words of a target.

    Attributes:
        module: a module's dotted name, or a Python file.
        path: a name in it, which may have dots.
        args, kwargs: of a call that was written out; None if there was none.
    """

    module: str
    path: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    called: bool = False

    @property
    def in_file(self) -> bool:
        """Whether its module is a file, and not a dotted name."""
        return self.module.endswith(".py") or "/" in self.module or "\\" in self.module

    def __str__(self) -> str:
        return f"{self.module}:{self.path}"


def read(text: str) -> Target:
    """The target's parts. Raises `LoadError` with the form that was expected."""
    found = _TARGET.fullmatch(text.strip())
    if found is None:
        raise LoadError(f"{text!r} is not of the form package.module:factory{_instead(text)}")
    call = found["call"]
    if call is None:
        return Target(found["module"], found["path"])
    try:
        parsed: Any = ast.parse(f"f{call}", mode="eval").body
        args = tuple(ast.literal_eval(argument) for argument in parsed.args)
        kwargs = {word.arg: ast.literal_eval(word.value) for word in parsed.keywords}
    except (SyntaxError, ValueError, AttributeError):
        raise LoadError(
            f"{text!r}: the arguments of a call must be plain values, as in "
            f"'{found['module']}:{found['path']}(width=512, name=\"small\")'"
        ) from None
    return Target(found["module"], found["path"], args, kwargs, True)


def file_of(target: Target) -> Path:
    """The file that a target names. Raises `LoadError` if it isn't there."""
    file = Path(target.module).expanduser()
    if not file.is_file():
        nearby = sorted(file.parent.glob("*.py")) if file.parent.is_dir() else []
        close = difflib.get_close_matches(file.name, [path.name for path in nearby], n=1)
        raise LoadError(
            f"there is no file {target.module}"
            f"{f'; did you mean {file.parent / close[0]}?' if close else ''}"
        )
    return file


def in_words(error: BaseException) -> str:
    """An error's name and its text, in one line of at most about 300 characters."""
    name, text = type(error).__name__, " ".join(str(error).split()).rstrip(".")
    if isinstance(error, BaseExceptionGroup):
        text += f"; the first: {in_words(error.exceptions[0])}"
    return f"{name}: {text if len(text) < 300 else text[:297] + '...'}" if text else name


def _instead(text: str) -> str:
    """What somebody may have meant who wrote no factory."""
    if text.endswith(WEIGHTS):
        return "; weights alone hold no code: name the function that builds the model"
    if text.endswith(".py"):
        return f"; name a function in the file, as {text}:make_model"
    if not re.search(r"[\s:()]", text):
        return f"; if it is a Hugging Face model, take --hf {text}; if it is in timm, --timm {text}"
    return ""
