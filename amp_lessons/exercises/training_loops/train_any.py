# %% statement points=2 minutes=15
# # One loop for three precisions
#
# Write `train_any(model, optimizer, loss_fn, batches, precision, max_norm)` for each `precision`:
#
# | `precision` | autocast | scaler |
# |---|---|---|
# | `"fp32"` | off | off |
# | `"bf16"` | BF16 | off |
# | `"fp16"` | FP16 | on, with the default scale at first |
#
# The model's parameters stay in float32. Before each step, clip the norm of all gradients together
# to `max_norm`. Make your own scaler and return its last scale, a float: 1.0 where it is off.

# %% answer
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    """Train on each batch once, on the CPU; return the last scale, a float."""
    ### BEGIN SOLUTION
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    mixed = precision != "fp32"
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=mixed):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()
    ### END SOLUTION

# %% hints
# - `autocast` and `GradScaler` both take `enabled=`. Which of the two is on in which precision?
# - A disabled scaler returns the loss as it is, and its `step()` calls `optimizer.step()`.
# - `unscale_()` may stay in the loop for all three: on a disabled scaler it does nothing.

# %% probe
from amp_lessons.exercises.training_loops.harness_plays import any_cases, use_in_any

probe = Probe(any_cases, play=use_in_any)

# %% judge
OUTPUTS = "dtype of the model's outputs"
judge = Judge(same=within(1e-3), pairs=False)  # they would take over a second

# %% passed
# `enabled=` keeps one path for all precisions: the float32 run tests the code of the FP16 run.

# %% right scaled_limit
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    for x, y in batches:
        with torch.autocast("cpu", dtype=dtype, enabled=precision != "fp32"):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        clip_grad_norm_(model.parameters(), max_norm * scaler.get_scale())
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return scaler.get_scale()

# %% rule model-cast
# You cast the model itself, so small updates are lost. Leave it in float32: autocast casts for you.
def breaks(seen, right):
    refused = "unscale FP16 gradients" in seen.get("error", {}).get("message", "")
    return refused or noted(seen, "dtype of the parameters") not in (None, "float32")
put("model.to(dtype)", before="for x, y")

# %% rule fp32-under-autocast
# With `precision="fp32"` your model computes in 16 bits. Pass `enabled=False` to autocast there.
def breaks(seen, right):
    return "x float32" in noted(right, OUTPUTS) and "float16" in (noted(seen, OUTPUTS) or "")
swap(", enabled=mixed", "")

# %% rule default-dtype
# With "fp16" your model computes in BF16, autocast's default on a CPU. Pass `dtype=torch.float16`.
def breaks(seen, right):
    return "x float16" in noted(right, OUTPUTS) and "bfloat16" in (noted(seen, OUTPUTS) or "")
swap("dtype=dtype, ", "")

# %% rule another-precision
# With "{precision}" your outputs are {dtypes}. Each 16-bit precision needs autocast with its dtype.
def breaks(seen, right):
    wanted, got = noted(right, OUTPUTS).split()[-1], (noted(seen, OUTPUTS) or "").split()
    precision = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}[wanted]
    wrong = len(got) == 3 and got[-1] != wanted  # such as 4, x and float32
    return wrong and {"precision": precision, "dtypes": got[-1]}
swap("else torch.bfloat16", "else torch.float16")

# %% rule scale-not-a-float
def breaks(seen, right):
    scale = noted(seen, "scale returned")
    wrong = is_dict(seen.get("value")) and type(scale) not in (int, float)
    return wrong and {"got": describe(scale)}
swap("return scaler.get_scale()", "return scaler.get_scale() if scaler.is_enabled() else None")

# %% rule bf16-scaled
# The last scale is {scale:g} where the scaler should be off: in BF16, or in float32. Their range
# needs no scale, and `step()` would only wait to learn if there was an inf. Enable it for FP16.
def breaks(seen, right):
    scale, off = noted(seen, "scale returned"), noted(right, "scale returned") == 1
    return {"scale": scale} if off and scale not in (1, None) else None
swap('enabled=precision == "fp16"', "enabled=mixed")
of("scaled_limit", swap(', enabled=precision == "fp16"', ""))

# %% rule other-settings
# With `precision="fp16"` your scaler ends at {scale:g}, although no step was skipped. So it doesn't
# start from the default scale, or it doesn't grow like a default scaler. Leave both as they are.
def breaks(seen, right):
    scale, wanted = noted(seen, "scale returned"), noted(right, "scale returned")
    clean = noted(seen, "optimizer steps") == 4 and wanted == 2.0**16
    return {"scale": scale} if clean and scale not in (wanted, 1.0) else None
swap('enabled=precision == "fp16"', 'enabled=precision == "fp16", init_scale=1024.0')
swap('enabled=precision == "fp16"', 'enabled=precision == "fp16", growth_interval=3')

# %% wrong stale-weights
wrap('with torch.autocast("cpu", dtype=dtype, enabled=mixed):', "for x, y")
unwrap("with torch") & wrap('with torch.autocast("cpu", dtype=dtype, enabled=mixed):', "for x, y")

# %% wrong scaler-bypassed
# With `precision="fp16"` you train without a loss scale. Small gradients are zero, and a step with
# an inf is not skipped. (`GradScaler()` means CUDA: it is off on a machine without a GPU.)
swap('enabled=precision == "fp16"', "enabled=False")
swap('enabled=precision == "fp16"', "enabled=precision == torch.float16")

# %% wrong clipped-before-unscale
# With `precision="fp16"` you clip gradients that are still scaled. So nearly all are above the
# limit, and after the division the step is tiny. Call `scaler.unscale_(optimizer)` before you clip.
# On a disabled scaler it does nothing.
of("scaled_limit", swap(" * scaler.get_scale()", ""))

# %% wrong stepped-without-the-scaler
swap("scaler.step(optimizer)", "optimizer.step()")
swap("scaler.step(optimizer)", "if loss.isfinite(): optimizer.step()")
swap("scaler.step(optimizer)", "if loss < 1e4: optimizer.step()")

# %% wrong scaler-each-batch
# You make a new scaler for each batch, so what it learned from an overflow is lost. Make one.
move("scaler =", before="optimizer")
of("scaled_limit", move("scaler =", before="with torch"))
