# %% statement points=2 minutes=10
# # Which lever helps this model?
#
# A model trains in FP32. Write `best_lever(parts)`: which one change saves the most bytes?
#
# - `"autocast"`: train under autocast.
# - `"checkpointing"`: keep checkpoints in place of the activations.
# - `"sgd"`: replace the optimizer by plain SGD, which keeps no state.
#
# If none of them saves a byte, return `"none"`. You don't have to handle ties.
#
# `parts` is a dict of bytes. `parameters`, `gradients`, `optimizer` (its state) and
# `activations_fp32` are what the model needs now. `activations_amp` is what the activations would
# take under autocast, and `casts` is what autocast would add. `checkpoints` is what checkpointing
# would keep in place of the activations. Don't change the dict.

# %% answer
def best_lever(parts):
    """The lever that saves most: "autocast", "checkpointing", "sgd" or "none"."""
    ### BEGIN SOLUTION
    saved = {
        "autocast": parts["activations_fp32"] - parts["activations_amp"] - parts["casts"],
        "checkpointing": parts["activations_fp32"] - parts["checkpoints"],
        "sgd": parts["optimizer"],
    }
    best = max(saved, key=saved.get)
    return best if saved[best] > 0 else "none"
    ### END SOLUTION

# %% hints
# - For each of the three, write down the bytes before and after the change.
# - Autocast makes the activations smaller and adds casts. Checkpointing replaces the activations by
#   checkpoints. With plain SGD the optimizer's state goes away.
# - Take the largest of the three savings, if it is more than 0.

# %% probe
from amp_lessons.exercises.memory.harness import lever_cases

probe = Probe(lever_cases)

# %% judge
judge = Judge(asked_for='one of "autocast", "checkpointing", "sgd" and "none"')

# %% passed
# What counts is how many bytes a change takes away from *this* model. For another it may cost some.

# %% right compares_totals
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

# %% right pairs_sorted
def best_lever(parts):
    before = parts["activations_fp32"]
    autocast = before - (parts["activations_amp"] + parts["casts"])
    checkpointing = before - parts["checkpoints"]
    levers = [(autocast, "autocast"), (checkpointing, "checkpointing"), (parts["optimizer"], "sgd")]
    return sorted([(0, "none"), *((n, name) for n, name in levers if n > 0)])[-1][1]

# %% wrong casts-forgotten
# You counted too much for autocast: its copies of the parameters come on top. Subtract `casts`.
swap(' - parts["casts"]', "")
swap('- parts["casts"]', '+ parts["casts"]')
of("pairs_sorted", swap('(parts["activations_amp"] + parts["casts"])', 'parts["activations_amp"]'))

# %% wrong model-halved
# You let autocast shrink parameters, gradients or optimizer state. All of them stay float32.
swap('- parts["casts"]', '- parts["casts"] + parts["parameters"] / 2')
swap('- parts["casts"]', '- parts["casts"] + (parts["parameters"] + parts["gradients"]) / 2')
swap('- parts["casts"]', '- parts["casts"] + parts["optimizer"] / 2')
of("pairs_sorted", put('autocast += parts["gradients"] / 2', before="checkpointing"))

# %% wrong activations-halved
# You took half of the activations for autocast. Use `activations_amp`, and subtract the casts.
swap('- parts["activations_amp"] - parts["casts"]', "/ 2")
swap('- parts["activations_amp"]', "/ 2")
of("pairs_sorted", swap('(parts["activations_amp"] + parts["casts"])', "before / 2"))

# %% wrong checkpoints-forgotten
# You let checkpointing save all activations. The checkpoints stay, so subtract them.
swap(' - parts["checkpoints"]', "")
of("compares_totals", swap(' + parts["checkpoints"]', ""))

# %% wrong what-stays
# You compared what stays with what goes away. Take the bytes before minus after for each change.
swap('parts["activations_fp32"] - parts["checkpoints"]', 'parts["checkpoints"]')
swap('parts["activations_fp32"] - parts["activations_amp"]', 'parts["activations_amp"]')
of("pairs_sorted", swap('before - parts["checkpoints"]', 'parts["checkpoints"]'))

# %% wrong share-for-bytes
# You compared shares. All of a small part can be less than a tenth of a large one. Compare bytes.
swap('"sgd": parts["optimizer"]', '"sgd": parts["activations_fp32"] * (parts["optimizer"] > 0)')
put('whole = {"sgd": parts["optimizer"] or 1}', before="best") & put("saved = {lever: n /"
    ' whole.get(lever, parts["activations_fp32"]) for lever, n in saved.items()}', before="best")

# %% wrong gradients-counted-for-sgd
# You let plain SGD save the gradients too. It needs them: only the optimizer's state goes away.
swap('"sgd": parts["optimizer"]', '"sgd": parts["optimizer"] + parts["gradients"]')
of("pairs_sorted", swap('parts["optimizer"]', 'parts["optimizer"] + parts["gradients"]'))

# %% wrong least-saved
# You picked the change that saves the least. Take the largest saving.
swap("max(saved", "min(saved")
of("pairs_sorted", put('return min(levers)[1] if min(levers)[0] > 0 else "none"', before="return"))

# %% wrong none-forgotten
# You named a change where none saves a byte. Autocast can add more than it saves, and the others
# can save nothing. If the best saving is 0 bytes or less, the answer is `"none"`.
swap(' if saved[best] > 0 else "none"', "")
swap("> 0", ">= 0")
of("pairs_sorted", swap('[(0, "none"), *((n, name) for n, name in levers if n > 0)]', "levers"))
