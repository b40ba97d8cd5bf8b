"""Check records before they are handed in: ``python tools/check_record.py my_gpu.json``."""

from __future__ import annotations

import sys

from amp_lessons.amp.speed.records.handing_in import faults


def main(paths: list[str]) -> int:
    """Print each fault with its file; 1 if there is one, 2 if no file was named."""
    if not paths:
        print("name the records to check: .venv/bin/python tools/check_record.py my_gpu.json")
        return 2
    found = [f"{path}: {fault}" for path in paths for fault in faults(path)]
    print("\n".join(found) or "ready to hand in")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
