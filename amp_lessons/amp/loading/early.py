"""What can be said against a command line before torch is imported: at once, not after seconds.

What passes here may still fail while `loader` makes the model.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from amp_lessons.amp.loading import hf_config, source_names
from amp_lessons.amp.loading.libraries import check_installed
from amp_lessons.amp.loading.model_spec import LoadError, ModelSpec
from amp_lessons.amp.loading.target_words import Target, file_of, read

LIBRARIES = ("transformers", "diffusers", "timm")


def check(wanted: ModelSpec) -> None:
    """Refuse contradictions, and what isn't there: a file, a name in it, a library, a config.

    Raises:
        LoadError: in one line with the cure.
    """
    _check_options(wanted)
    if wanted.timm:
        check_installed("timm")
        _check_timm(wanted.timm)
        return
    alone = not wanted.hf and ":" not in wanted.target and hf_config.is_config(wanted.target)
    if wanted.target and not alone:
        _check_target(wanted.target)
    if wanted.hf or alone:
        hf_config.check(wanted.hf or wanted.target, may_add_types=bool(wanted.hf and wanted.target))


def _check_target(text: str) -> None:
    target = read(text)
    if target.module.partition(".")[0] in LIBRARIES:
        check_installed(target.module.partition(".")[0])
    file = file_of(target) if target.in_file else source_names.file_of_module(target.module)
    if file is None or source_names.is_installed(file):
        return
    known = source_names.names_of(file)
    name = target.path.partition(".")[0]
    if known is not None and name not in known and not name.startswith("__"):
        raise no_such_name(target, name, known)


def no_such_name(target: Target, name: str, known: Iterable[str]) -> LoadError:
    """What to say where a module doesn't have a name, with the nearest one that it has."""
    close = difflib.get_close_matches(name, known, n=1)
    near = f"; did you mean {close[0]!r}?" if close else ""
    return LoadError(f"{target.module} has no {target.path!r}{near}")


def _check_timm(name: str) -> None:
    """Refuse a model that timm's source doesn't have, with some that are called likewise."""
    models, renamed = source_names.models_of_timm()
    plain = name.partition(".")[0]
    if not models or plain in models or plain in renamed:
        return
    in_order = sorted(models, key=_by_number)
    close = [each for each in in_order if each.startswith(plain)]
    close = close[:3] or difflib.get_close_matches(plain, in_order)
    near = f"; did you mean {' or '.join(close)}?" if close else ""
    raise LoadError(f"timm has no model {name!r}{near}")


def _by_number(name: str) -> list[str | int]:
    """So that patch8 comes before patch14, as timm lists them."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _check_options(wanted: ModelSpec) -> None:
    """Refuse words that contradict each other. Raises `LoadError`."""
    sources = [word for word in (wanted.target, wanted.hf, wanted.timm) if word]
    if not sources:
        raise LoadError("name a model: package.module:factory, --hf config.json, or --timm NAME")
    if wanted.timm and len(sources) > 1:
        raise LoadError("--timm names a whole model; leave out the other one")
    for name in ("batch", "length", "image_size"):
        value = getattr(wanted, name)
        if value is not None and value < 1:
            option = name.replace("_", "-")
            raise LoadError(f"--{option} must be at least 1, not {value}")
