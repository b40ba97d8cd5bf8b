"""The corpus: every broken and hostile submission, and what must come out of it."""

from __future__ import annotations

from collections import Counter

from hostile.archives import ARCHIVES
from hostile.attacks import HOSTILE
from hostile.broken import BROKEN
from hostile.cheats import CHEATS
from hostile.honest import HONEST
from hostile.sheets import Submission

CORPUS: tuple[Submission, ...] = (*BROKEN, *HONEST, *ARCHIVES, *HOSTILE, *CHEATS)
BY_NAME = {submission.name: submission for submission in CORPUS}

assert len(BY_NAME) == len(CORPUS), Counter(s.name for s in CORPUS).most_common(1)
