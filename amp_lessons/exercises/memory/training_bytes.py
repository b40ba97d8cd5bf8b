# %% statement points=2 minutes=10
# # Bytes per parameter
#
# Write `training_bytes(parameters, optimizer, precision)`. It returns how many bytes the
# parameters, their gradients and the optimizer's state take together, after `optimizer.step()` and
# before `zero_grad()`.
#
# - `parameters` is how many there are. All of them are trained.
# - `optimizer` is `"sgd"`, `"momentum"` (SGD with momentum) or `"adam"`, each from `torch.optim`.
#   Leave out Adam's step counter.
# - `precision` is `"fp32"`, `"amp"` (a float32 model under autocast) or `"bf16"` (a model stored in
#   bfloat16, without autocast).

# %% answer
def training_bytes(parameters, optimizer, precision):
    """Bytes of parameters, gradients and optimizer state, a whole number."""
    ### BEGIN SOLUTION
    tensors = 2 + {"sgd": 0, "momentum": 1, "adam": 2}[optimizer]
    width = 2 if precision == "bf16" else 4
    return parameters * tensors * width
    ### END SOLUTION

# %% hints
# - Three things have the size of the model: the parameters, the gradients, and what the optimizer
#   keeps for each parameter.
# - How many numbers per parameter do SGD, SGD with momentum and Adam keep? In which dtype?
# - Everything has the dtype of the parameter. That's 2 bytes for `"bf16"` and 4 for `"fp32"`. Which
#   dtype do parameters have under autocast?

# %% probe
from amp_lessons.exercises.memory.stage import state_cases

probe = Probe(state_cases)

# %% passed
# Autocast doesn't touch parameters, gradients or optimizer state. With Adam they take 16 bytes per
# parameter, with or without it.

# %% right part_by_part
def training_bytes(parameters, optimizer, precision):
    width = 2 if precision == "bf16" else 4
    weights = parameters * width
    gradients = parameters * width
    state = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer] * parameters * width
    return weights + gradients + state

# %% right a_table
def training_bytes(parameters, optimizer, precision):
    table = {"sgd": 8, "momentum": 12, "adam": 16}
    return parameters * table[optimizer] / (2 if precision == "bf16" else 1)

# %% rule counted-in-32-bits
# Your number wrapped around: it is off by a multiple of 2**32. A large model needs more bytes than
# a 32-bit integer can hold. Use Python's integers, or int64.
def breaks(seen, right):
    got = as_number(seen.get("value"))
    if got is None or got == right["value"] or abs(got) >= 2**32:
        return False
    return (got - right["value"]) % 2**32 == 0
swap("parameters * tensors * width", "(parameters * tensors * width + 2**31) % 2**32 - 2**31")
swap("return parameters * tensors * width",
    "return torch.tensor(parameters * tensors * width).to(torch.int32).item()")

# %% wrong amp-halves
# You counted something with 16 bits under AMP. Autocast changes neither the parameters nor their
# gradients nor the optimizer's state: all of them are float32, four bytes per number.
swap('precision == "bf16"', 'precision != "fp32"')
of("part_by_part", put('if precision == "amp": weights /= 2', before="return"))
of("part_by_part", put('if precision == "amp": state /= 2', before="return"))
of("part_by_part", put('if precision == "amp": weights, state = weights / 2, state / 2',
    before="return"))
of("part_by_part", put('if precision == "amp": gradients /= 2', before="return"))

# %% wrong copies-kept
# You added 16-bit copies, or master weights, under AMP. `torch.amp` needs no master weights: the
# parameters themselves are float32. Autocast frees its 16-bit copies when the region ends, so none
# are left after the step.
of("part_by_part", put('if precision == "amp": weights += 2 * parameters', before="return"))
of("part_by_part", put('if precision == "amp": weights += 4 * parameters', before="return"))
swap("tensors * width", 'tensors * (6 if precision == "amp" else width)')
swap("parameters * tensors * width", 'parameters * (tensors * width + 2 * (precision == "amp"))')

# %% wrong gradients-forgotten
# The gradients are missing. After backward there is one number for each parameter, in its dtype,
# and it stays until `zero_grad()`.
swap("2 +", "1 +")
of("part_by_part", swap("+ gradients", ""))

# %% wrong state-forgotten
# The optimizer's state is missing. SGD with momentum keeps one number per parameter, and Adam keeps
# two. Only plain SGD keeps none.
swap('2 + {"sgd": 0, "momentum": 1, "adam": 2}[optimizer]', "2")
of("part_by_part", swap("+ state", ""))

# %% wrong momentum-forgotten
# You counted no state for SGD with momentum. It keeps one number per parameter: the running sum of
# the gradients.
swap('"momentum": 1', '"momentum": 0')
of("a_table", swap('"momentum": 12', '"momentum": 8'))

# %% wrong adam-keeps-two
# You counted one number per parameter for Adam. It keeps two: an average of the gradient, and one
# of its square.
swap('"adam": 2', '"adam": 1')
of("a_table", swap('"adam": 16', '"adam": 12'))

# %% wrong adam-keeps-three
# You counted three numbers per parameter for Adam. It keeps two: an average of the gradient, and
# one of its square. Its step counter is one number per tensor, and the task leaves it out.
swap('"adam": 2', '"adam": 3')
of("a_table", swap('"adam": 16', '"adam": 20'))

# %% wrong sgd-keeps-nothing
# You counted state for plain SGD. Without momentum it needs only the gradient, so it keeps nothing
# between steps.
swap('"sgd": 0', '"sgd": 1')
of("a_table", swap('"sgd": 8', '"sgd": 12'))

# %% wrong bf16-as-float32
# You counted four bytes per number for a model stored in bfloat16. Its parameters take two bytes,
# and so do their gradients and the optimizer's state.
swap('2 if precision == "bf16" else 4', "4")
of("a_table", swap('2 if precision == "bf16" else 1', "1"))

# %% wrong state-in-float32
# You counted four bytes for something that has two in a model stored in bfloat16. `torch.optim`
# creates its state with the dtype of the parameter, and a gradient has that dtype too.
of("part_by_part", swap("parameters * width", "parameters * 4", 3))
swap("tensors * width", "(2 * width + 4 * (tensors - 2))")
swap("tensors * width", "(width + 4 * (tensors - 1))")

# %% wrong master-weights-in-bf16
# You added float32 master weights to a model stored in bfloat16. `torch.optim` keeps no such copy:
# it updates the bfloat16 parameters directly. That saves memory, but small updates get lost.
of("part_by_part", put('if precision == "bf16": weights += 4 * parameters', before="return"))
swap("parameters * tensors * width", 'parameters * (tensors * width + 4 * (precision == "bf16"))')

# %% wrong another-unit
# You returned another unit. The task asks for bytes: 4 for each float32 number and 2 for each
# bfloat16 number, not multiplied by 8 and not divided by 2**30.
swap("tensors * width", "tensors")
swap("tensors * width", "tensors * width / 2**30")
swap("tensors * width", "tensors * width / 1e9")
swap("tensors * width", "tensors * 8 * width")
of("a_table", swap("parameters *", "8 * parameters *"))
