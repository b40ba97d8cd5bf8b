"""A record of the bench that nobody measured, for tests of what reads records."""

from __future__ import annotations

# Invented, and so only here: nothing in the package says that anybody measured this.
INVENTED = {
    "schema_version": 1,
    "name": "invented",
    "kind": "measured",
    "gpu": "Imaginary GPU",
    "driver": "1.2.3",
    "torch": "2.13.0",
    "date": "2026-01-02",
    "command": "amp-lessons bench --preset seed",
    "clock": "cuda events",
    "machine": {"cpu": "Imaginary CPU"},
    "peaks": {"flops": {"FP32": 5e13, "FP16": 8e14}, "bandwidth": 4e12},
    "rows": [
        {
            "workload": "mlp 4096x4096, 3 layers",
            "mode": "FP32",
            "samples_s": [0.020, 0.022, 0.021, 0.029, 0.0215],
            "calls": 50,
            "warm_up": 6,
            "settled": True,
            "step_flops": 1_000_000_000_000,
            "step_bytes": 10_000_000_000,
            "roof": 5e13,
            "peak_bytes": 700,
            "data_bytes": 600,
            "losses": [1.0, None, 0.5],
            "departs": "",
        }
    ],
    "not_measured": [{"workload": "cnn", "mode": "TF32", "reason": "no TF32"}],
}
