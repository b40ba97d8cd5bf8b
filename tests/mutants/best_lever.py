# === mutant: no_casts -> casts-forgotten
def best_lever(parts):
    saved = {
        "autocast": parts["activations_fp32"] - parts["activations_amp"],
        "checkpointing": parts["activations_fp32"] - parts["checkpoints"],
        "sgd": parts["optimizer"],
    }
    name = max(saved, key=saved.get)
    return name if saved[name] > 0 else "none"


# === mutant: half_the_model -> model-halved
def best_lever(parts):
    amp = parts["activations_fp32"] - parts["activations_amp"] - parts["casts"]
    amp += parts["parameters"] / 2
    checkpointing = parts["activations_fp32"] - parts["checkpoints"]
    best = max(amp, checkpointing, parts["optimizer"])
    if best <= 0:
        return "none"
    if best == amp:
        return "autocast"
    return "checkpointing" if best == checkpointing else "sgd"


# === mutant: half_the_activations -> activations-halved
def best_lever(parts):
    saved = [
        (parts["activations_fp32"] / 2, "autocast"),
        (parts["activations_fp32"] - parts["checkpoints"], "checkpointing"),
        (parts["optimizer"], "sgd"),
    ]
    most, name = max(saved)
    return name if most > 0 else "none"


# === mutant: all_activations -> checkpoints-forgotten
def best_lever(parts):
    saved = {
        "autocast": parts["activations_fp32"] - parts["activations_amp"] - parts["casts"],
        "checkpointing": parts["activations_fp32"],
        "sgd": parts["optimizer"],
        "none": 0,
    }
    return max(saved, key=saved.get)


# === mutant: where_most_is -> checkpoints-forgotten
def best_lever(parts):
    if parts["activations_fp32"] >= parts["optimizer"]:
        return "checkpointing"
    return "sgd"


# === mutant: always_one -> none-forgotten
def best_lever(parts):
    saved = {
        "autocast": parts["activations_fp32"] - parts["activations_amp"] - parts["casts"],
        "checkpointing": parts["activations_fp32"] - parts["checkpoints"],
        "sgd": parts["optimizer"],
    }
    return max(saved, key=saved.get)


# === mutant: all_of_it_in_half -> model-halved
def best_lever(parts):
    halved = parts["activations_fp32"] + parts["parameters"] + parts["gradients"]
    saved = {
        "autocast": halved / 2,
        "checkpointing": parts["activations_fp32"] - parts["checkpoints"],
        "sgd": parts["optimizer"],
    }
    name = max(saved, key=saved.get)
    return name if saved[name] > 0 else "none"


# === correct: compares_totals
def best_lever(parts):
    states = parts["parameters"] + parts["gradients"]
    now = states + parts["optimizer"] + parts["activations_fp32"]
    after = {
        "none": now,
        "autocast": states + parts["optimizer"] + parts["activations_amp"] + parts["casts"],
        "checkpointing": states + parts["optimizer"] + parts["checkpoints"],
        "sgd": states + parts["activations_fp32"],
    }
    return min(after, key=after.get)


# === mutant: casts_on_the_wrong_side -> casts-forgotten
def best_lever(parts):
    saved = {
        "autocast": parts["activations_fp32"] - parts["activations_amp"] + parts["casts"],
        "checkpointing": parts["activations_fp32"] - parts["checkpoints"],
        "sgd": parts["optimizer"],
    }
    name = max(saved, key=saved.get)
    return name if saved[name] > 0 else "none"
