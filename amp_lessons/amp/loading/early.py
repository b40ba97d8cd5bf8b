"""What can be said against a command line before torch is imported: at once, not after seconds.

What passes here may still fail while `loader` makes the model.
"""

from __future__ import annotations

from amp_lessons.amp.loading import hf_config
from amp_lessons.amp.loading.libraries import check_installed
from amp_lessons.amp.loading.model_spec import LoadError, ModelSpec
from amp_lessons.amp.loading.target_words import file_of, read

LIBRARIES = ("transformers", "diffusers", "timm")


def check(wanted: ModelSpec) -> None:
    """Refuse contradictions, and what isn't there: a file, a library, a config or its type.

    Raises:
        LoadError: in one line with the cure.
    """
    _check_options(wanted)
    if wanted.timm:
        check_installed("timm")
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
    if target.in_file:
        file_of(target)


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
