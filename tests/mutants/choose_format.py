# === mutant: precision_and_underflow_only -> overflow-ignored
def choose_format(values, tolerance):
    exact = values[values != 0].double()
    best = ("FP32", 32, 0.0)
    for name in ("FP8 E4M3", "FP8 E5M2", "FP16", "BF16"):
        stored = FORMATS[name].round(exact)
        fine = stored.isfinite()
        if (stored == 0).any():
            continue
        error = ((stored - exact).abs() / exact.abs())[fine]
        worst = error.max().item() if len(error) else 0.0
        if worst <= tolerance and (FORMATS[name].bits, worst) < best[1:]:
            best = (name, FORMATS[name].bits, worst)
    return best[0]


# === mutant: zeros_left_out -> underflow-ignored
def choose_format(values, tolerance):
    exact = values[values != 0].double()
    best = ("FP32", 32, 0.0)
    for name in ("FP8 E4M3", "FP8 E5M2", "FP16", "BF16"):
        stored = FORMATS[name].round(exact)
        if not stored.isfinite().all():
            continue
        kept = stored != 0
        worst = ((stored - exact).abs() / exact.abs())[kept].max().item()
        if worst <= tolerance and (FORMATS[name].bits, worst) < best[1:]:
            best = (name, FORMATS[name].bits, worst)
    return best[0]


# === mutant: fits_the_range -> range-only
def choose_format(values, tolerance):
    exact = values[values != 0].double()
    found = []
    for name in ("FP8 E4M3", "FP8 E5M2", "FP16", "BF16", "FP32"):
        stored = FORMATS[name].round(exact)
        if stored.isfinite().all() and (stored != 0).all():
            worst = ((stored - exact).abs() / exact.abs()).max().item()
            found.append((FORMATS[name].bits, worst, name))
    return min(found)[2]


# === mutant: mean_relative_error -> average-error
def choose_format(values, tolerance):
    exact = values[values != 0].double()
    found = [(32, 0.0, "FP32")]
    for name in ("FP8 E4M3", "FP8 E5M2", "FP16", "BF16"):
        stored = FORMATS[name].round(exact)
        if stored.isfinite().all() and (stored != 0).all():
            error = ((stored - exact).abs() / exact.abs()).mean().item()
            if error <= tolerance:
                found.append((FORMATS[name].bits, error, name))
    return min(found)[2]


# === mutant: bf16_is_the_modern_choice -> bf16-first
def choose_format(values, tolerance):
    exact = values[values != 0].double()
    for name in ("FP8 E5M2", "FP8 E4M3", "BF16", "FP16"):
        stored = FORMATS[name].round(exact)
        if stored.isfinite().all() and (stored != 0).all():
            if ((stored - exact).abs() / exact.abs()).max() <= tolerance:
                return name
    return "FP32"


# === mutant: first_in_the_list -> first-that-holds
def choose_format(values, tolerance):
    exact = values[values != 0].double()
    for name in ("FP8 E4M3", "FP8 E5M2", "FP16", "BF16"):
        stored = FORMATS[name].round(exact)
        if stored.isfinite().all() and (stored != 0).all():
            if ((stored - exact).abs() / exact.abs()).max() <= tolerance:
                return name
    return "FP32"


# === mutant: e5m2_before_e4m3 -> first-that-holds
def choose_format(values, tolerance):
    exact = values[values != 0].double()
    for name in ("FP8 E5M2", "FP8 E4M3", "FP16", "BF16"):
        stored = FORMATS[name].round(exact)
        if stored.isfinite().all() and (stored != 0).all():
            if ((stored - exact).abs() / exact.abs()).max() <= tolerance:
                return name
    return "FP32"


# === mutant: all_of_formats -> tf32-chosen
def choose_format(values, tolerance):
    exact = values[values != 0].double()
    found = []
    for name, f in FORMATS.items():
        stored = f.round(exact)
        if stored.isfinite().all() and (stored != 0).all():
            worst = ((stored - exact).abs() / exact.abs()).max().item()
            if worst <= tolerance:
                found.append((f.bits, worst, name))
    return min(found)[2] if found else "FP32"


# === mutant: eight_bits_are_too_few -> 16-bit-at-least
def choose_format(values, tolerance):
    exact = values[values != 0].double()
    for name in ("FP16", "BF16"):
        stored = FORMATS[name].round(exact)
        if stored.isfinite().all() and (stored != 0).all():
            if ((stored - exact).abs() <= tolerance * exact.abs()).all():
                return name
    return "FP32"


# === mutant: always_bf16 -> wrong-value
def choose_format(values, tolerance):
    return "BF16"


# === mutant: returns_the_format -> wrong-type
def choose_format(values, tolerance):
    return FORMATS["FP16"]


# === correct: minimum_of_tuples
def choose_format(values, tolerance):
    exact = values[values != 0].double()
    found = [(32, 0.0, "FP32")]
    for name in ("BF16", "FP16", "FP8 E5M2", "FP8 E4M3"):
        stored = FORMATS[name].round(exact)
        error = ((stored - exact) / exact).abs().nan_to_num(1e9).max().item()
        if error <= tolerance and bool((stored != 0).all()):
            found.append((FORMATS[name].bits, error, name))
    return min(found)[2]


# === correct: sorted_by_bits_and_error
def choose_format(values, tolerance):
    import numpy as np

    exact = values.numpy().astype(np.float64)
    exact = exact[exact != 0]

    def badness(name):
        stored = FORMATS[name].round(exact)
        with np.errstate(invalid="ignore"):
            error = np.nan_to_num(abs(stored / exact - 1), nan=np.inf)
        worst = error.max()
        return (worst > tolerance or not (stored != 0).all(), FORMATS[name].bits, worst)

    return min(("fp32", "fp16", "bf16", "e4m3", "e5m2"), key=lambda short: badness(LONG[short]))


LONG = {"fp32": "FP32", "fp16": "FP16", "bf16": "BF16", "e4m3": "FP8 E4M3", "e5m2": "FP8 E5M2"}
