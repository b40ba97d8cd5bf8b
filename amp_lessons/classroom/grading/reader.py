"""The process that reads notebooks: a file of 100 MB can be slow to read, and take gigabytes.

Started by `reading`. A question is the content of a file, and the answer the submission in JSON, or
why it is none.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from amp_lessons.classroom.grading import notebook, services
from amp_lessons.classroom.grading.frames import Frame
from amp_lessons.core.ipynb import NotebookError


def answer(_: dict[str, Any], content: bytes) -> Frame:
    try:
        submission = notebook.parse(content)
    except NotebookError as error:
        return {"refused": str(error)}, b""
    found = asdict(submission) | {"lesson": submission.lesson.slug}
    return {}, json.dumps(found).encode()


if __name__ == "__main__":
    services.serve(answer)
