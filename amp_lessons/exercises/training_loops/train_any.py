# %% statement points=2 minutes=15
# # One loop for three precisions
#
# Write `train_any(model, optimizer, loss_fn, batches, precision, max_norm)`: one loop for
# `precision` in `"fp32"`, `"bf16"` and `"fp16"`.
#
# | `precision` | autocast | scaler |
# |---|---|---|
# | `"fp32"` | off | off |
# | `"bf16"` | BF16 | off |
# | `"fp16"` | FP16 | on, with the default scale at first |
#
# The model's parameters stay in float32. Before each step, clip the norm of all gradients together
# to `max_norm`. Make your own scaler, and return its scale at the end as a float. Return 1.0 where
# the scaler is off.

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
from amp_lessons.exercises.training_loops.stage_plays import any_cases, use_in_any

probe = Probe(any_cases, play=use_in_any)

# %% judge
judge = Judge(same=within(1e-3), pairs=False)  # they would take over a second

# %% passed
# `enabled=` keeps one path for all precisions. So the float32 run tests the same code as the FP16
# run.

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
# You cast the model itself. Then the optimizer's updates are in 16 bits, and small ones are lost.
# Leave the model in float32: autocast casts the operations.
def breaks(seen, right):
    refused = "unscale FP16 gradients" in seen.get("error", {}).get("message", "")
    return refused or noted(seen, "dtype of the parameters") not in (None, "float32")
put("model.to(dtype)", before="for x, y")
put('if precision == "fp16": model.half()', before="for x, y")

# %% rule fp32-under-autocast
# With `precision="fp32"` your model computes in 16 bits. Switch autocast off there, with
# `enabled=False`.
def breaks(seen, right):
    outputs = "dtype of the model's outputs"
    return "x float32" in noted(right, outputs) and "float16" in (noted(seen, outputs) or "")
swap(", enabled=mixed", "")
swap('mixed = precision != "fp32"', "mixed = True")

# %% rule default-dtype
# With `precision="fp16"` your model computes in BF16. Perhaps you left out autocast's dtype: on a
# CPU the default is BF16. Pass `dtype=torch.float16` there.
def breaks(seen, right):
    outputs = "dtype of the model's outputs"
    return "x float16" in noted(right, outputs) and "bfloat16" in (noted(seen, outputs) or "")
swap("dtype=dtype, ", "")
swap('torch.float16 if precision == "fp16" else torch.bfloat16', "torch.bfloat16")

# %% rule another-precision
# With `precision="{precision}"` your model's outputs are {dtypes}. Each 16-bit precision needs
# autocast, with its own dtype.
def breaks(seen, right):
    outputs = "dtype of the model's outputs"
    wanted, dtypes = noted(right, outputs), noted(seen, outputs)
    if not dtypes or dtypes == wanted or dtypes.count(" x ") != 1:
        return None
    if dtypes.split()[-1] == wanted.split()[-1]:
        return None
    precision = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}[wanted.split()[-1]]
    return {"precision": precision, "dtypes": dtypes.split()[-1]}
swap("else torch.bfloat16", "else torch.float16")
swap('mixed = precision != "fp32"', 'mixed = precision == "fp16"')
swap('mixed = precision != "fp32"', 'mixed = precision == "bf16"')

# %% rule scale-not-a-float
def breaks(seen, right):
    scale = noted(seen, "scale returned")
    if not is_dict(seen.get("value")) or type(scale) in (int, float):
        return None
    return {"got": describe(scale)}
swap("return scaler.get_scale()", "return scaler.get_scale() if scaler.is_enabled() else None")

# %% rule other-settings
# With `precision="fp16"` your scaler ends at {scale:g}, although no step was skipped. So it doesn't
# start from the default scale, or it doesn't grow like a default scaler. Leave both as they are.
def breaks(seen, right):
    scale, wanted = noted(seen, "scale returned"), noted(right, "scale returned")
    clean = noted(seen, "optimizer steps") == 7 and wanted == 2.0**16
    return {"scale": scale} if clean and scale not in (wanted, 1.0) else None
swap('enabled=precision == "fp16"', 'enabled=precision == "fp16", init_scale=1024.0')
swap('enabled=precision == "fp16"', 'enabled=precision == "fp16", growth_interval=3')

# %% wrong stale-weights
(unwrap("with torch.autocast") & wrap('with torch.autocast("cpu", dtype=dtype, enabled=mixed):',
    "for x, y"))
wrap('with torch.autocast("cpu", dtype=dtype, enabled=mixed):', "for x, y")

# %% wrong bf16-scaled
# You scale where the range doesn't need it: in BF16, and perhaps in float32. Every `step()` then
# waits to learn whether there was an inf. Pass `enabled=True` for FP16 alone.
swap('enabled=precision == "fp16"', "enabled=mixed")
swap('enabled=precision == "fp16"', "enabled=True")
of("scaled_limit", swap(', enabled=precision == "fp16"', ""))

# %% wrong scaler-bypassed
# With `precision="fp16"` you train without a loss scale. Small gradients are zero, and a step with
# an inf is not skipped. (`GradScaler()` means CUDA: it is off on a machine without a GPU.)
swap('enabled=precision == "fp16"', "enabled=False")
of("scaled_limit", swap('enabled=precision == "fp16"', "enabled=False"))
swap('enabled=precision == "fp16"', 'enabled=precision == "float16"')
swap('enabled=precision == "fp16"', 'enabled=precision == "bf16"')

# %% wrong clipped-before-unscale
# With `precision="fp16"` you clip gradients that are still scaled, so nearly all of them are cut.
# Call `scaler.unscale_(optimizer)` before you clip. On a disabled scaler it does nothing.
of("scaled_limit", swap(" * scaler.get_scale()", ""))

# %% wrong stepped-without-the-scaler
swap("scaler.step(optimizer)", "optimizer.step()")
swap("scaler.step(optimizer)", "if loss.isfinite(): optimizer.step()")
swap("scaler.step(optimizer)", "if loss < 1e4: optimizer.step()")

# %% wrong scaler-each-batch
# You make a new scaler for each batch, so the scale always starts from the default. What it learned
# from an overflow is lost. Make one scaler for the run.
move("scaler =", before="optimizer")
of("scaled_limit", move("scaler =", before="with torch"))
