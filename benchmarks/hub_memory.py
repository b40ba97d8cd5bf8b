"""Memory and processor time of a learner on the JupyterHub of `hub/`.

Learners log in, one after the other, and each runs a lesson in a kernel. When as many are there as
asked for, the memory of each process is read: PSS, where a page that several processes share is
divided among them, and USS, which is what only this process has. With ``--lessons`` one learner
then runs every lesson in a kernel of its own, for the most memory that each one needs. Linux only.
Run it with ``python benchmarks/hub_memory.py [--learners N ...] [--lessons] [--json FILE]``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from class_hub import Hub, HubError, Kernel, Learner, running_hub  # noqa: E402

MIB = 2**20
LESSON = "notebooks/00_amp_in_20_minutes.ipynb"

Row = dict[str, float]


def machine() -> dict[str, object]:
    """Where the numbers come from. PyTorch isn't imported here: this process would share its pages
    with the learners."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in info if line.startswith("model name")]
    found: dict[str, object] = {"cpu": names[0] if names else platform.machine()}
    found |= {"cores": os.cpu_count(), "system": platform.platform()}
    found["memory_GiB"] = round(psutil.virtual_memory().total / 2**30, 1)
    found["python"] = platform.python_version()
    return found | {name: version(name) for name in ("torch", "jupyterhub", "jupyterlab")}


def cells_of(notebook: str) -> list[str]:
    cells = json.loads((ROOT / notebook).read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run_lesson(kernel: Kernel, notebook: str) -> None:
    """Run every code cell. Raises `HubError` if one raises, for then less ran than it should."""
    for source in cells_of(notebook):
        kernel.run(source)
    if kernel.raised:
        raise HubError(f"{notebook} raised {', '.join(kernel.raised)}")


# ---- processes ----------------------------------------------------------------------------------


def server_of(hub: Hub, name: str) -> psutil.Process:
    """The learner's Jupyter server, a child of the hub."""
    for process in psutil.Process(hub.process.pid).children():
        if process.environ().get("JUPYTERHUB_USER") == name:
            return process
    raise HubError(f"no server of {name} runs: {hub.last_words()}")


def processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def memory(process: psutil.Process) -> tuple[float, float]:
    """PSS and USS in MiB."""
    found = process.memory_full_info()
    return found.pss / MIB, found.uss / MIB


def peak(process: psutil.Process) -> float:
    """The most that was ever resident, shared pages included, in MiB."""
    lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


# ---- measurements -------------------------------------------------------------------------------


def arrive(hub: Hub, learner: Learner, lesson: str) -> Row:
    """Log in, start a kernel, import PyTorch, run the lesson: the processor seconds of each."""
    learner.log_in(hub.password).raise_for_status()
    learner.wait_for_server()
    learner.first_page().raise_for_status()
    server = server_of(hub, learner.name)
    row = {"server": processor_seconds(server)}
    with learner.open_notebook(lesson) as kernel:
        kernel.run("import torch")
        (process,) = server.children()
        row["kernel with torch"] = processor_seconds(process)
        run_lesson(kernel, lesson)
        row["lesson"] = processor_seconds(process) - row["kernel with torch"]
    return row


def memory_of_all(hub: Hub, learners: Sequence[Learner]) -> list[Row]:
    rows = []
    for learner in learners:
        server = server_of(hub, learner.name)
        (kernel,) = server.children()
        server_pss, server_uss = memory(server)
        kernel_pss, kernel_uss = memory(kernel)
        row = {"server PSS": server_pss, "server USS": server_uss}
        row |= {"kernel PSS": kernel_pss, "kernel USS": kernel_uss}
        rows.append(row | {"learner PSS": server_pss + kernel_pss})
    return rows


def hub_and_proxy(hub: Hub) -> Row:
    process = psutil.Process(hub.process.pid)
    (proxy,) = [x for x in process.children() if "JUPYTERHUB_USER" not in x.environ()]
    return {"hub PSS": memory(process)[0], "proxy PSS": memory(proxy)[0]}


def each_lesson(hub: Hub, learner: Learner) -> dict[str, Row]:
    """Every lesson in a kernel of its own, by its most resident and its final USS in MiB."""
    server, found = server_of(hub, learner.name), {}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = f"notebooks/{path.name}"
        before = set(server.children())
        with learner.open_notebook(notebook) as kernel:
            (process,) = set(server.children()) - before or before
            run_lesson(kernel, notebook)
            seconds = processor_seconds(process)
            found[path.stem] = {"peak RSS": peak(process), "USS": memory(process)[1]}
            found[path.stem]["processor seconds"] = seconds
        show(path.stem, found[path.stem])
        if notebook != LESSON:  # that kernel is the one from before
            learner.api(f"kernels/{kernel.id}", "DELETE")
    return found


def middle(rows: Sequence[Row]) -> Row:
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def show(title: str, row: Row) -> None:
    print(
        f"{title:<32}", ", ".join(f"{name} {value:.1f}" for name, value in row.items()), flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--learners", type=int, nargs="+", default=[1, 4, 12], metavar="N")
    parser.add_argument("--lessons", action="store_true", help="run every lesson, too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    options = parser.parse_args()
    counts = sorted(options.learners)
    if counts[0] < 1:
        parser.error("--learners must be 1 or more")
    where = machine()
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    record: dict[str, object] = {"what": "hub_memory", "machine": where, "lesson": LESSON}
    record |= {"date": datetime.date.today().isoformat()}
    record |= {"command": shlex.join(["python", *sys.argv])}
    seconds: list[Row] = []
    at: dict[int, list[Row]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        running_hub(Path(folder)) as hub,
        ExitStack() as s,
    ):
        learners: list[Learner] = []
        print("medians; processor seconds, then MiB")
        for count in counts:
            while len(learners) < count:
                learners.append(s.enter_context(Learner(hub, f"learner{len(learners)}")))
                seconds.append(arrive(hub, learners[-1], LESSON))
            at[count] = memory_of_all(hub, learners)
            show(f"{count} learners", middle(at[count]))
        show("to start and to run a lesson", middle(seconds))
        record |= {"processor_seconds": seconds, "memory_MiB": at, "hub": hub_and_proxy(hub)}
        show("the hub", hub_and_proxy(hub))
        if options.lessons:
            record["lessons"] = each_lesson(hub, learners[0])
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
