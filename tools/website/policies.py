"""The policy table: what autocast does to each op, on CUDA and a CPU, for each recorded torch.

The page shows the newest version as a table. `policy_table.mjs` filters it and switches to another.
"""

from __future__ import annotations

import html
from typing import Any

from amp_lessons.amp import policy_record
from website import places
from website.pages import Page

DTYPES = ("float16", "bfloat16")
DEVICES = ("cuda", "cpu")


def data() -> dict[str, Any]:
    """For each version, dtype and op: group, 16-bit, float32 and mixed result, on both devices."""
    return {
        "groups": list(policy_record.GROUPS),
        "versions": {
            version: {dtype: _rows(version, dtype) for dtype in DTYPES}
            for version in policy_record.versions()
        },
    }


def _rows(version: str, dtype: str) -> list[list[Any]]:
    cuda, cpu = (policy_record.table(device, dtype, version) for device in DEVICES)
    ops = [*cuda, *(op for op in cpu if op not in cuda)]
    return [[op, _cell(cuda.get(op)), _cell(cpu.get(op))] for op in ops]


def _cell(found: policy_record.RecordedPolicy | None) -> list[Any] | None:
    if found is None:
        return None
    group = policy_record.GROUPS.index(found.group)
    return [group, found.low, found.full, found.mixed]


def page() -> Page:
    version = policy_record.versions()[-1]
    rows = "".join(
        f'<tr><th scope="row"><code>{html.escape(op)}</code></th><td>{_words(cuda)}</td>'
        f"<td>{_words(cpu)}</td></tr>"
        for op, cuda, cpu in _rows(version, DTYPES[0])
    )
    content = (
        "<h1>What autocast does to each op</h1>"
        "<p>Each row is an op, recorded under CUDA's autocast rules and a CPU's. The three dtypes "
        "are those of the result for 16-bit, FP32 and mixed input. A dash means that there is no "
        "result. "
        "CUDA's rules were asked on fake tensors, with no GPU.</p>"
        '<div id="policy-controls"></div>'
        f'<p id="policy-told" role="status">torch {version}, float16</p>'
        '<div class="table"><table id="policy-table"><thead><tr><th scope="col">op</th>'
        f'<th scope="col">CUDA</th><th scope="col">CPU</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
    return Page(
        places.POLICY,
        "Autocast policy table",
        content,
        scripts=("policy_table.mjs",),
        wide=True,
        kind="reference",
    )


def _words(cell: list[Any] | None) -> str:
    if cell is None:
        return "not in this torch"
    group, *dtypes = cell
    if not any(dtypes):
        return html.escape(policy_record.GROUPS[group])
    given = ", ".join(each or "–" for each in dtypes)
    return f"{html.escape(policy_record.GROUPS[group])} <small>({given})</small>"
