"""How long `explain_autocast` takes on models that people have, and how much memory.

GPT-2, a llama of 1.5 billion parameters and Stable Diffusion 1.5's UNet, from the configs of
transformers and diffusers (``pip install "amp-lessons[models]"``), on the meta device and by
CUDA's rules. Each round is a process of its own. Run it with
``python benchmarks/explain_models.py [--json FILE] [--repeats N]``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMITS = {"gpt2": 2.0, "llama-1.5b": 6.0, "unet-sd-1.5": 10.0}  # CPU seconds
MEMORY = 600.0  # MiB, with all that was imported

ROUND = """
import json, resource, sys, time
sys.path[:0] = [sys.argv[2] + "/tests", sys.argv[2] + "/benchmarks"]
from real_models.packages import prepare
prepare()
import torch
import explain_models
def peak():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
model, kwargs = getattr(explain_models, sys.argv[1])()
before, start, wall = peak(), time.process_time(), time.perf_counter()
from amp_lessons.amp.explain import explain_autocast
explained = explain_autocast(model, device="cuda", kwargs=kwargs)
lines = explained.summary()
print(json.dumps({
    "explain_cpu_s": time.process_time() - start, "explain_s": time.perf_counter() - wall,
    "before_mib": before, "peak_mib": peak(),
    "parameters": explained.totals.parameters, "ops": explained.totals.ops,
    "summary_lines": len(lines),
}))
"""


def gpt2():
    """GPT-2's smallest, 124 million parameters, at 1024 tokens."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    with torch.device("meta"):
        model = GPT2LMHeadModel(GPT2Config())
    return model, {"input_ids": torch.randint(0, 50257, (1, 1024))}


def llama():
    """A llama of 1.5 billion parameters with grouped queries, at 2048 tokens."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=20,
        num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=2048,
    )  # fmt: skip
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    return model, {"input_ids": torch.randint(0, 128256, (2, 2048))}


def unet():
    """The UNet of Stable Diffusion 1.5, at a latent of 64 by 64."""
    import torch
    from diffusers import UNet2DConditionModel

    with torch.device("meta"):
        model = UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8)
    latent, words = torch.empty(2, 4, 64, 64), torch.empty(2, 77, 768)
    steps = torch.tensor([7, 400])
    return model, {"sample": latent, "timestep": steps, "encoder_hidden_states": words}


MODELS = {"gpt2": "gpt2", "llama-1.5b": "llama", "unet-sd-1.5": "unet"}


def one_round(function: str) -> dict[str, float]:
    """Build and explain in a fresh process; seconds and MiB."""
    command = [sys.executable, "-c", ROUND, function, str(ROOT)]
    environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | environment
    )
    return json.loads(done.stdout.splitlines()[-1])


def report(name: str, rounds: list[dict[str, float]]) -> None:
    print(f"\n{name}: {rounds[0]['parameters']:,} parameters, {rounds[0]['ops']} ops")
    for key in ("explain_cpu_s", "explain_s", "before_mib", "peak_mib"):
        values = [each[key] for each in rounds]
        limit = {"explain_cpu_s": LIMITS[name], "peak_mib": MEMORY}.get(key)
        beside = f"  limit {limit:g}" if limit else ""
        middle = statistics.median(values)
        print(f"  {key:<14} median {middle:8.2f}  ({min(values):.2f} to {max(values):.2f}){beside}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    parser.add_argument("--repeats", type=int, default=3, help="processes a model, default: 3")
    chosen = parser.parse_args()
    samples = {}
    for name, function in MODELS.items():
        samples[name] = [one_round(function) for _ in range(chosen.repeats)]
        report(name, samples[name])
    if chosen.json:
        chosen.json.write_text(json.dumps(about() | {"samples": samples}, indent=1) + "\n")


def about() -> dict[str, str]:
    """What the numbers were measured on."""
    from importlib.metadata import version

    packages = {name: version(name) for name in ("torch", "transformers", "diffusers")}
    return packages | {
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


if __name__ == "__main__":
    main()
