"""One table of GPUs: a row added to `roofline.GPUS` reaches everything, and breaks nothing.

Lists are made from the table at import, so the rows are added in a process of their own.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from amp_lessons.amp.attention.gpus import CAPABILITIES, WITHOUT_PEAKS, capability
from amp_lessons.amp.roofline import DTYPES, GPUS

ROWS = """
import amp_lessons.amp.roofline as roofline
from amp_lessons.amp.roofline import Gpu

SOURCE = "https://example.com/data-sheet"
MADE_UP = (
    Gpu("X900 PCIe", 60.0, 410.0, 820.0, 820.0, 3900.0, 94, (9, 0), SOURCE, "Made up."),
    Gpu("RTX PRO 7000", 120.0, 125.0, 250.0, 250.0, 1800.0, 96, (12, 0), SOURCE),
    Gpu("T9", 9.0, None, 70.0, None, 330.0, 16, (7, 5), SOURCE),
    Gpu("MI999X", 170.0, 660.0, 1310.0, 1310.0, 6000.0, 256, None, SOURCE),
)
"""
ADDED = ROWS + "roofline.GPUS += MADE_UP\n"
ALONE = ROWS + "roofline.GPUS = (*MADE_UP, roofline.find_gpu('H200'))\n"
"""The made-up rows and little else, so that each generator draws them all the time."""


def run(code: str) -> str:
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_every_generator_still_makes_questions():
    printed = run(
        ALONE + "from amp_lessons.quiz import generators\n"
        "for generator in generators.GENERATORS.values():\n"
        "    for seed in range(10):\n"
        "        item = generator.make(seed)\n"
        "        for gpu in MADE_UP:\n"
        "            if gpu.name in item.prompt:\n"
        "                print(generator.id, gpu.name)\n"
    )
    drawn = set(printed.splitlines())
    assert {"speed.gen_mfu X900 PCIe", "speed.gen_mfu MI999X", "speed.gen_bound T9"} <= drawn


def test_attention_takes_the_kernels_of_its_compute_capability():
    run(
        ADDED + "from amp_lessons.amp.attention import AttentionCall, AttentionError\n"
        "from amp_lessons.amp.attention import capability, choose\n"
        "call = AttentionCall(*[(2, 8, 128, 64)] * 3)\n"
        "for gpu in MADE_UP[:3]:\n"
        "    assert capability(gpu.name) == gpu.capability\n"
        "    major, minor = gpu.capability\n"
        "    same = choose(call, f'sm{major}{minor}')\n"
        "    assert choose(call, f'NVIDIA {gpu.name}').kernel == same.kernel\n"
        "try:\n"
        "    capability('MI999X')\n"
        "except AttentionError as error:\n"
        "    assert 'x900, pro7000, t9' in str(error)\n"
        "else:\n"
        "    raise AssertionError('an AMD GPU has no compute capability')\n"
    )


@pytest.mark.slow
def test_memory_and_explain_answer_for_it():
    run(
        ADDED + "import torch\n"
        "from amp_lessons.amp.memory.budget import survey\n"
        "from amp_lessons.amp.memory.training import training_memory\n"
        "from amp_lessons.amp.explain import explain_autocast\n"
        "from amp_lessons.amp.explain.report.costs import costs_of\n"
        "for gpu in MADE_UP[:3]:\n"
        "    layer, x = torch.nn.Linear(8, 8), torch.ones(4, 8)\n"
        "    assert training_memory(layer, x, device='cuda', gpu=gpu.name).total > 0\n"
        "    trace = explain_autocast(layer, x, device='cuda', gpu=gpu.name)\n"
        "    assert costs_of(trace).gpu is gpu\n"
    )


@pytest.mark.slow
def test_the_bench_the_tables_and_the_widgets_show_it():
    run(
        ADDED + "import torch\n"
        "from amp_lessons.amp.speed.bench import report\n"
        "from amp_lessons.lessons.myths import proofs\n"
        "from amp_lessons.lessons.widgets import RooflineExplorer\n"
        "for gpu in MADE_UP:\n"
        "    assert roofline.find_gpu(f'NVIDIA {gpu.name}') is gpu\n"
        "    assert report.find_gpu(gpu.name) is gpu\n"
        "    assert f'| {gpu.name} | {gpu.fp32:g} |' in roofline.table()\n"
        "    assert RooflineExplorer(gpu=gpu.name).gpu == gpu.name\n"
        "    for dtype in gpu.dtypes:\n"
        "        work = roofline.Matmul(8, 8, 8)\n"
        "        assert roofline.matmul_floor(gpu, dtype, work) > 0\n"
        "assert 'RTX PRO 7000' in proofs.candidates()\n"
        "assert 'X900 PCIe' not in proofs.candidates()\n"
    )


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_a_row_is_complete(gpu):
    assert gpu.source.startswith("https://")
    assert 8 <= gpu.memory <= 1000
    assert min(gpu.fp32, gpu.bandwidth) > 0
    rates = [gpu.peak(dtype) for dtype in DTYPES if dtype in gpu.dtypes]
    assert rates == sorted(rates), "each format is at least as fast as the one before"
    if gpu.capability:
        assert capability(f"NVIDIA {gpu.name}") == gpu.capability
        assert (gpu.bf16 is not None) == (gpu.tf32 is not None) == (gpu.capability >= (8, 0))


def test_no_gpu_stands_in_two_lists():
    ours = {gpu.name.lower() for gpu in GPUS} | {gpu.name.split()[0].lower() for gpu in GPUS}
    assert not ours & set(WITHOUT_PEAKS)
    assert set(WITHOUT_PEAKS) < set(CAPABILITIES)
