"""Record what autocast does to each op on the installed torch: `python tools/record_policy.py`.

Writes the file of the installed version in `amp_lessons/amp/policy_record/recorded`, or replaces
it. What it writes is what `amp_lessons.amp.policy` answers now; look at the diff before you commit
it. Run it on a machine without a GPU, so that every version's CUDA answers come from fake tensors
and can be compared. A build with CUDA and one without give the same dtypes and groups.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from amp_lessons.amp import policy, policy_record
from amp_lessons.amp.policy_record.changes import BUILD_ONLY
from amp_lessons.core.files import write_atomically

DTYPES = ("float16", "bfloat16")
COLUMNS = (*policy_record.COLUMNS, *policy_record.DETAILS)


def asked() -> dict[str, Any]:
    """The installed torch's rules and answers, as a file of the record holds them."""
    answers = {
        device: {
            dtype: {
                row["op"]: [row[name] for name in COLUMNS]
                for row in policy.as_json(policy.policy_table(device, dtype))
            }
            for dtype in DTYPES
        }
        for device in policy.DEVICES
    }
    return {
        "torch": policy_record.release(torch.__version__),
        "columns": COLUMNS,
        "rules": {device: sorted(policy.rules(device) - BUILD_ONLY) for device in policy.DEVICES},
        "answers": answers,
    }


def as_text(found: dict[str, Any]) -> str:
    """JSON with one rule and one op a line, so that two versions can be compared with diff."""
    rules = [
        f"{json.dumps(device)}: [\n" + ",\n".join(map(json.dumps, names)) + "]"
        for device, names in found["rules"].items()
    ]
    devices = []
    for device, dtypes in found["answers"].items():
        tables = []
        for dtype, rows in dtypes.items():
            ops = ",\n".join(f"{json.dumps(op)}: {json.dumps(row)}" for op, row in rows.items())
            tables.append(f"{json.dumps(dtype)}: {{\n{ops}\n}}")
        devices.append(f"{json.dumps(device)}: {{{', '.join(tables)}}}")
    head = f'{{"torch": {json.dumps(found["torch"])}, "columns": {json.dumps(found["columns"])}'
    return f'{head},\n"rules": {{{", ".join(rules)}}},\n"answers": {{{", ".join(devices)}}}}}\n'


def main() -> int:
    if torch.cuda.is_available():
        print("this machine has a GPU: its answers could not be compared with the other records")
        return 1
    found = asked()
    file = policy_record.FOLDER / f"{found['torch']}.json"
    write_atomically(file, as_text(found).encode())
    print(f"recorded {len(policy.OPS)} ops of torch {found['torch']} in {file.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
