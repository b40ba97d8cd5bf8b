"""Profile a training step on this machine's CPU and store it as the profile that lesson 10 reads.

``python tools/make_trace.py`` takes a few seconds. The stored times are this machine's; say so
where they are shown (`Profiles.source`).
"""

from __future__ import annotations

import json

from amp_lessons.amp.speed import profiles
from amp_lessons.core.files import write_atomically

WIDTH, BATCH, STEPS = 512, 256, 20


def main() -> None:
    """Write the profile and print it."""
    made = profiles.profile_step(WIDTH, BATCH, steps=STEPS)
    data = profiles.as_json(made)
    data["made"]["command"] = "python tools/make_trace.py"
    write_atomically(profiles.STORED, (json.dumps(data, indent=1) + "\n").encode())
    print(made.source)
    for profile in made.by_precision.values():
        print(profile.table())


if __name__ == "__main__":
    main()
