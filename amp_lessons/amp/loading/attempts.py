"""A model that is tried again in another way, if it refuses its inputs or wants real numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from amp_lessons.amp.loading.captured_output import heard
from amp_lessons.amp.loading.fixes import with_fix, worth_a_real_run
from amp_lessons.amp.loading.loader import load_model
from amp_lessons.amp.loading.model_spec import LoadedModel, ModelSpec
from amp_lessons.core.errors import AmpLessonsError

LONGEST = 300
"""Characters of an error in a note."""


class Attempt:
    """A loaded model, and what it refused while it was used.

    Attributes:
        refused: the error that ended `started`; None if there was none.
    """

    def __init__(self, given: LoadedModel) -> None:
        self._given = given
        self.refused: AmpLessonsError | None = None

    @contextmanager
    def started(self) -> Iterator[LoadedModel]:
        """The model, to be used inside. What it prints there is no part of our results.

        An error of the course ends the block and goes no further: it decides what is tried next.
        """
        try:
            with heard():
                yield self._given
        except AmpLessonsError as error:
            self.refused = error


def attempts_at(wanted: ModelSpec, values: str = "fake") -> Iterator[Attempt]:
    """The model that a command line asks for; after a refusal the next way to make it, if any.

    A picture or sound that was made here and doesn't fit is left out. With the values "auto", a
    small model that looks at numbers gets real ones.

    Args:
        wanted: the model.
        values: "fake", "real" or "auto".

    Raises:
        LoadError: if there is no such model.
        AmpLessonsError: what the last attempt refused, with what to write if that may help.
    """
    given = load_model(replace(wanted, real=values == "real"))
    while True:
        yield (attempt := Attempt(given))
        error = attempt.refused
        if error is None:
            return
        if given.plain is not None:
            given = _plain(given, given.plain, error)
        elif values == "auto" and worth_a_real_run(given, error):
            given, values = load_model(replace(wanted, real=True)), "real"
        else:
            raise with_fix(error, given) from error


def _plain(given: LoadedModel, plain: LoadedModel, error: AmpLessonsError) -> LoadedModel:
    """The same without what was made here and refused, with a line that says so."""
    made = ", ".join(name for name in given.kwargs if name not in plain.kwargs)
    why = textwrap.shorten(str(error), LONGEST, placeholder=" …")
    note = f"{plain.note}\nleft out, because the model refused them: {made} ({why})"
    return replace(plain, note=note)
