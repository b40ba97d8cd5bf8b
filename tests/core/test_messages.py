"""What torch says about a call comes back as text."""

from __future__ import annotations

import warnings

from amp_lessons.core.messages import said


def test_said_hears_warnings_and_errors_and_nothing_else():
    def both():
        warnings.warn("look out", FutureWarning, stacklevel=1)
        raise RuntimeError("too late")

    assert said(both) == "FutureWarning: look out\nRuntimeError: too late"
    assert said(lambda: 1) == ""
