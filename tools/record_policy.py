"""Record what autocast does to each op on the installed torch: `python tools/record_policy.py`.

Adds the installed version to `amp_lessons/policy_recorded.json`, or replaces it. What it writes is
what `amp_lessons.policy` answers now; look at the diff before you commit it. Run it on a machine
without a GPU, so that every version's CUDA answers come from fake tensors and can be compared.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from packaging.version import Version

from amp_lessons import policy, policy_record
from amp_lessons.foundations.files import write_atomically

DTYPES = ("float16", "bfloat16")


def asked() -> dict[str, Any]:
    """The installed torch's answers, by device, dtype and op."""
    return {
        device: {
            dtype: {
                row["op"]: [row[name] for name in policy_record.COLUMNS]
                for row in policy.as_json(policy.policy_table(device, dtype))
            }
            for dtype in DTYPES
        }
        for device in policy.DEVICES
    }


def as_text(found: dict[str, Any]) -> str:
    """JSON with one op a line, so that a diff of two versions can be read."""
    versions = []
    for version in sorted(found, key=Version):
        devices = []
        for device, dtypes in found[version].items():
            tables = []
            for dtype, rows in dtypes.items():
                ops = ",\n".join(f"{json.dumps(op)}: {json.dumps(row)}" for op, row in rows.items())
                tables.append(f"{json.dumps(dtype)}: {{\n{ops}\n}}")
            devices.append(f"{json.dumps(device)}: {{{', '.join(tables)}}}")
        versions.append(f"{json.dumps(version)}: {{{', '.join(devices)}}}")
    head = f'"columns": {json.dumps(policy_record.COLUMNS)}'
    return f'{{{head},\n"versions": {{{", ".join(versions)}}}}}\n'


def main() -> int:
    if torch.cuda.is_available():
        print("this machine has a GPU: its answers could not be compared with the other records")
        return 1
    there = policy_record.FILE.exists()
    found = json.loads(policy_record.FILE.read_text("utf-8"))["versions"] if there else {}
    version = policy_record.release(torch.__version__)
    found[version] = asked()
    write_atomically(policy_record.FILE, as_text(found).encode())
    print(f"recorded {len(policy.OPS)} ops of torch {version} in {policy_record.FILE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
