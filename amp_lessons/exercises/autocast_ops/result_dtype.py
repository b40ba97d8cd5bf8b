# %% statement points=2 minutes=15
# # A dtype oracle
#
# Write `result_dtype(op, device, region, inputs)`: the `torch.dtype` that an op gives in autocast.
#
# - `op` is one of the names below, and `device` is `"cpu"` or `"cuda"`.
# - `region` is the dtype of the autocast region, `torch.float16` or `torch.bfloat16`.
# - `inputs` is a tuple of dtypes: float16, bfloat16 and float32 in any mixture, or all float64.
#
# These ops take one input: `softmax`, `layer_norm` (without weights), `exp`, `log`, `sum`,
# `cumsum`, `prod`, `mean`, `var`, `sqrt`, `relu`, `sigmoid`, and `softmax, dtype=float32`, which
# stands for `torch.softmax(x, -1, dtype=torch.float32)`. These take two: `matmul`, `linear`,
# `conv1d`, `mse_loss`, `add`, `cat`, and `add_`, which stands for `a.add_(b)`.
#
# Write down what you know, and don't run the ops. The check tries about 200 combinations.

# %% answer
def result_dtype(op, device, region, inputs):
    """The dtype of op's result, given inputs of these dtypes, under autocast to region."""
    ### BEGIN SOLUTION
    low = {"matmul", "linear", "conv1d"}
    single = {"mse_loss", "prod"}
    if device == "cuda":
        single |= {"softmax", "layer_norm", "exp", "log", "sum", "cumsum"}
    if op == "add_":
        return inputs[0]
    if op == "softmax, dtype=float32":
        return torch.float32
    widest = torch.promote_types(inputs[0], inputs[-1])
    if widest == torch.float64:
        return widest
    if op in low:
        return region
    return torch.float32 if op in single else widest
    ### END SOLUTION

# %% hints
# - Ask in this order. Does the op write in place, or name its dtype? Is a float64 among the inputs?
#   Is the op on the lower-precision list, or on this device's float32 list?
# - An op on no list follows ordinary type promotion, as `torch.promote_types(a, b)` does.
# - You need three sets: lower precision, float32 on both devices, and float32 on CUDA only.

# %% probe
from amp_lessons.exercises.autocast_ops.harness import oracle_cases

own = ("amp_lessons.amp.policy", "amp_lessons.amp.policy_record")
probe = Probe(oracle_cases, watch=True, own=own)

# %% judge
judge = Judge(asked_for="a torch.dtype, such as torch.float32")

# %% passed
# You can say which dtype autocast gives before you run the op, even for a device you don't have.

# %% right table_of_rules
RULES = dict.fromkeys(["matmul", "linear", "conv1d"], "low")
RULES |= dict.fromkeys(["mse_loss", "prod"], "float32")
RULES |= dict.fromkeys(["softmax", "layer_norm", "exp", "log", "sum", "cumsum"], "cuda")
WIDTH = {torch.float16: 1, torch.bfloat16: 1, torch.float32: 2, torch.float64: 3}

def result_dtype(op, device, region, inputs):
    rule = RULES.get(op)
    if op.endswith("_"):
        return inputs[0]
    if "dtype=float32" in op:
        return torch.float32
    if torch.float64 in inputs:
        return torch.float64
    if rule == "low":
        return region
    if rule == "float32" or (rule == "cuda" and device == "cuda"):
        return torch.float32
    first, last = inputs[0], inputs[-1]
    if WIDTH[first] == WIDTH[last] and first is not last:
        return torch.float32
    return first if WIDTH[first] > WIDTH[last] else last

# %% right result_type_of_empty_tensors
def result_dtype(op, device, region, inputs):
    a, b = torch.tensor([1.0], dtype=inputs[0]), torch.zeros(1, dtype=inputs[-1])
    found = torch.result_type(a, b)
    if op in {"matmul", "linear", "conv1d"} and found.itemsize < 8:
        found = region
    safe = "softmax layer_norm exp log sum cumsum" if device == "cuda" else ""
    if op in [*safe.split(), "mse_loss", "prod"] and found.itemsize < 8:
        found = torch.float32
    return {"add_": inputs[0], "softmax, dtype=float32": torch.float32}.get(op, found)

# %% rule asked-torch
# You ran the op and looked. That is a good habit; here, write down what you know instead.
def breaks(seen, right):
    # Arithmetic on dtypes is dispatched like an op, and `torch.result_type` takes tensors.
    harmless = "promote_types result_type can_cast empty empty_strided zeros ones full"
    harmless += " scalar_tensor zero_ fill_ lift_fresh detach _to_copy"
    return any(op["op"][6:] not in harmless.split() for op in seen.get("ops", []))
put("looked = torch.relu(torch.ones(4, 4, dtype=inputs[0])).dtype", before="low =")

# %% wrong global-cast
# You cast everything to the region's dtype. Ops on no list give the dtype that they are given.
put("return region", before="low =")
swap("else widest", "else region")
of("table_of_rules", put("return region", before="rule ="))

# %% wrong cuda-rules-on-cpu
# You gave the CPU at least one op of CUDA's list. `softmax`, `layer_norm`, `exp`, `log`, `sum` and
# `cumsum` become float32 on CUDA only. On a CPU they give the dtype that they are given.
unwrap("if device")
of("table_of_rules", swap('"softmax", "lay', '"lay') & swap('"prod"]', '"prod", "softmax"]'))
of("table_of_rules", swap(' and device == "cuda")', ")"))

# %% wrong cpu-rules-on-cuda
# On CUDA you let at least one op of the float32 list follow its input, as a CPU does. All of
# `softmax`, `layer_norm`, `exp`, `log`, `sum` and `cumsum` give float32 on CUDA.
drop("if device")
of("table_of_rules", swap('or (rule == "cuda" and device == "cuda")', ""))

# %% wrong reductions-in-float32
# You put a reduction on a float32 list that isn't there. Of these, CUDA's list has `sum`, `prod`
# and `cumsum`, and a CPU's list has `prod`.
swap('"cumsum"}', '"cumsum", "mean", "var"}')
of("table_of_rules", swap('"cumsum"]', '"cumsum", "mean", "var"]'))

# %% wrong unlisted-op
# You put `sqrt`, `sigmoid` or `relu` on a list. CUDA's float32 list has `rsqrt`, `exp` and `log`,
# but none of these three: they give the dtype that they are given, on both devices.
swap('"cumsum"}', '"cumsum", "sqrt", "sigmoid"}')
of("table_of_rules", swap('"cumsum"]', '"cumsum", "sqrt", "sigmoid"]'))
swap('"conv1d"}', '"conv1d", "relu"}')

# %% wrong loss-as-given
# You let `mse_loss` or `prod` follow their inputs. Both are on the float32 list of both devices.
swap('"mse_loss", "prod"', "*()")
swap('{"mse_loss", "prod"}', "set()") & swap('"cumsum"}', '"cumsum", "mse_loss", "prod"}')
swap('{"mse_loss", "prod"}', '{"mse_loss"}') & swap('"cumsum"}', '"cumsum", "prod"}')
swap('{"mse_loss", "prod"}', '{"prod"}') & swap('"cumsum"}', '"cumsum", "mse_loss"}')
of("table_of_rules", drop('RULES |= dict.fromkeys(["mse_loss"'))

# %% wrong in-place-widened
# You treated `add_` like `add`. It writes into the tensor on its left, and that keeps its dtype.
drop("if op ==", nth=1)
of("table_of_rules", drop("if op.endswith"))

# %% wrong float64-cast
# You let autocast change float64. It casts floating-point tensors, but never float64.
drop("if widest")
swap("widest == torch.float64", "widest == torch.float64 and op not in low")
of("table_of_rules", move('if rule == "low"', before="if torch.float64"))

# %% wrong explicit-dtype-ignored
# `softmax(x, dtype=torch.float32)` always gets the dtype that it names. Another rule came first.
drop("if op ==", nth=2)
put('op = op.split(",")[0]', before="low =")
of("table_of_rules", drop('if "dtype'))
move("if op ==", nth=2, after="if widest")
of("table_of_rules", move('if "dtype', after="if torch.float64"))

# %% wrong low-ops-as-given
# You let `matmul`, `linear` and `conv1d` compute in the dtype of their inputs. Autocast casts those
# to the region's dtype: float32 inputs, and those of the other 16-bit format.
drop("if op in low")
of("table_of_rules", drop('if rule == "low"'))
swap("return region", "return region if torch.float32 in inputs else inputs[0]")

# %% wrong region-ignored
# You gave `matmul`, `linear` and `conv1d` a fixed 16-bit dtype. They run in that of the `region`.
swap("return region", "return torch.float16")
swap("return region", 'return torch.bfloat16 if device == "cpu" else torch.float16')
put("region = torch.float16", before="low =")

# %% wrong sixteen-with-sixteen
# You let float16 and bfloat16 give a 16-bit dtype. Neither holds the other's numbers: use float32.
swap("else widest", "else region if {*inputs} == {torch.float16, torch.bfloat16} else widest")
of("table_of_rules", swap("return torch.float32", "return region", nth=3))
of("table_of_rules", swap("return torch.float32", "return torch.float16", nth=3))

# %% wrong one-input-decides
# You let one input decide. Outside the lists the wider wins; float16 with bfloat16 gives float32.
swap("else widest", "else inputs[0]")
swap("else widest", "else inputs[-1]")
swap("promote_types(inputs[0], inputs[-1])", "promote_types(inputs[0], inputs[0])")

# %% wrong ready-made

# %% program asks_the_table
def result_dtype(op, device, region, inputs):
    from amp_lessons.amp.policy_record import table

    rows = table(device, str(region).removeprefix("torch."))
    group = rows[op].group if op in rows else op
    widest = torch.promote_types(inputs[0], inputs[-1])
    wide = "float32" in group and widest != torch.float64
    low = group == "lower precision" and widest != torch.float64
    known = {"add_": inputs[0], "softmax, dtype=float32": torch.float32}
    return known.get(op, region if low else torch.float32 if wide else widest)
