# %% statement points=2 minutes=10
# # Bytes per parameter
#
# Write `training_bytes(parameters, optimizer, precision)`: how many bytes parameters, gradients and
# the optimizer's state take together, after `optimizer.step()` and before `zero_grad()`.
#
# - `parameters` is how many there are. All of them are trained.
# - `optimizer` is `"sgd"`, `"momentum"` (SGD with momentum) or `"adam"`, each from `torch.optim`.
#   Leave out Adam's step counter.
# - `precision` is `"fp32"`, `"amp"` (float32, with autocast) or `"bf16"` (bfloat16, without).

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
# - Everything has the dtype of the parameter. Which dtype do parameters have under autocast?

# %% probe
from amp_lessons.exercises.memory.harness import state_cases

probe = Probe(state_cases, own=("amp_lessons.amp.memory.training",))

# %% passed
# With Adam a float32 parameter, its gradient and state take 16 bytes, with autocast or without.

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
# Your number wrapped around: it is off by a multiple of 2**32. Use Python's integers, or int64.
def breaks(seen, right):
    got = as_number(seen.get("value"))
    if got is None or got == right["value"] or abs(got) >= 2**32:
        return False
    return (got - right["value"]) % 2**32 == 0
swap("parameters * tensors * width", "(parameters * tensors * width + 2**31) % 2**32 - 2**31")
swap("parameters * tensors * width", "torch.tensor(parameters * tensors * width).int().item()")

# %% wrong amp-halves
# You counted several parts with 16 bits under AMP. Autocast changes neither the parameters nor
# their gradients nor the optimizer's state: all of them are float32, four bytes per number.
swap('precision == "bf16"', 'precision != "fp32"')
of("part_by_part", swap('precision == "bf16"', 'precision in ("amp", "bf16")'))
swap("tensors * width", '(tensors * width - 4 * (precision == "amp"))')
swap("tensors * width", '(tensors * width - 2 * (tensors - 1) * (precision == "amp"))')

# %% wrong amp-halves-a-part
# Under AMP you counted 16 bits for the parameters or for their gradients. The parameters stay
# float32, and a gradient has the dtype of its parameter: four bytes for each number.
swap("parameters * tensors * width", 'parameters * (tensors * width - 2 * (precision == "amp"))')
of("part_by_part", put('if precision == "amp": gradients /= 2', before="return"))

# %% wrong amp-halves-the-state
# Under AMP you counted 16 bits for the optimizer's state. `torch.optim` creates it with the dtype
# of the parameter, and under autocast that is float32: four bytes for each number.
swap("tensors * width", '(2 * width + (tensors - 2) * (4 if precision == "fp32" else 2))')
of("part_by_part", put('if precision == "amp": state /= 2', before="return"))

# %% wrong copies-kept
# You added 16-bit copies, or master weights, under AMP. `torch.amp` needs no master weights: the
# parameters are float32. Autocast's own 16-bit copies are gone after the backward pass.
of("part_by_part", put('if precision == "amp": weights += 2 * parameters', before="return"))
of("part_by_part", put('if precision == "amp": weights += 4 * parameters', before="return"))
swap("parameters * tensors * width", 'parameters * (tensors * width + 2 * (precision == "amp"))')

# %% wrong gradients-forgotten
# The gradients are missing: one number for each parameter, in its dtype, until `zero_grad()`.
swap("2 +", "1 +")
of("part_by_part", swap("+ gradients", ""))

# %% wrong state-forgotten
# The optimizer's state is missing: one number per parameter with momentum, and two for Adam.
swap('2 + {"sgd": 0, "momentum": 1, "adam": 2}[optimizer]', "2")
of("part_by_part", swap("+ state", ""))

# %% wrong momentum-forgotten
# You counted no state for momentum. It is one number per parameter: a running sum of gradients.
swap('"momentum": 1', '"momentum": 0')
of("a_table", swap('"momentum": 12', '"momentum": 8'))

# %% wrong adam-keeps-two
# Adam keeps two numbers per parameter, not one: an average of the gradient, and one of its square.
swap('"adam": 2', '"adam": 1')
of("a_table", swap('"adam": 16', '"adam": 12'))

# %% wrong adam-keeps-three
# Adam keeps two numbers per parameter, not three. Its step counter is to be left out.
swap('"adam": 2', '"adam": 3')
of("a_table", swap('"adam": 16', '"adam": 20'))

# %% wrong sgd-keeps-nothing
# You counted state for plain SGD. Without momentum it keeps nothing between steps.
swap('"sgd": 0', '"sgd": 1')
of("a_table", swap('"sgd": 8', '"sgd": 12'))

# %% wrong bf16-as-float32
# A model stored in bfloat16 takes two bytes for each parameter, gradient and number of the state.
swap('2 if precision == "bf16" else 4', "4")
of("a_table", swap('2 if precision == "bf16" else 1', "1"))

# %% wrong state-in-float32
# You counted four bytes for each number of the optimizer's state, in a model stored in bfloat16.
# `torch.optim` creates its state with the dtype of the parameter, so it is two bytes.
of("part_by_part", swap("* parameters * width", "* parameters * 4"))
swap("tensors * width", "(2 * width + 4 * (tensors - 2))")

# %% wrong gradients-in-float32
# In a bfloat16 model you counted four bytes for a gradient. It has two, like its parameter.
of("part_by_part", swap("gradients = parameters * width", "gradients = parameters * 4"))
swap("tensors * width", "((tensors - 1) * width + 4)")

# %% wrong master-weights-in-bf16
# You added float32 master weights to a model stored in bfloat16. `torch.optim` keeps no such copy:
# it updates the bfloat16 parameters directly. That saves memory, but small updates get lost.
of("part_by_part", put('if precision == "bf16": weights += 4 * parameters', before="return"))
swap("parameters * tensors * width", 'parameters * (tensors * width + 4 * (precision == "bf16"))')

# %% wrong another-unit
# You returned another unit. The task asks for bytes: 4 for a float32 number, 2 for a bfloat16 one.
swap("tensors * width", "tensors")
swap("tensors * width", "tensors * width / 2**30")
swap("tensors * width", "tensors * 8 * width")
of("a_table", swap("parameters *", "8 * parameters *"))

# %% wrong ready-made
# %% program the_course_counts
def training_bytes(parameters, optimizer, precision):
    from amp_lessons import training_memory

    with torch.device("meta"):
        model, x = nn.Linear(parameters, 1, bias=False), torch.empty(1, parameters)
    precision = "amp bf16" if precision == "amp" else precision
    return training_memory(model, x, precision=precision, optimizer=optimizer).model_states
