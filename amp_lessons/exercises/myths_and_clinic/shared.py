# %% wrong another-precision
# Your layers don't run in FP16, as the lines below show. On a CPU, `torch.autocast("cpu")` without
# a dtype means BF16. Keep `dtype=torch.float16` around the forward pass.
unwrap("with torch.autocast")
wrap('with torch.autocast("cpu", enabled=False):', "loss = loss_fn(model(x), y)")
swap(", dtype=torch.float16", "")
swap(", dtype=torch.float16", ", dtype=torch.bfloat16")

# %% wrong scaler-bypassed
# You train without the scaler. Nothing keeps small gradients from becoming zero in FP16, and
# nothing skips a step that overflows. Keep `scaler.scale`, `scaler.step` and `scaler.update`.
(swap("scaler.scale(loss)", "loss") & swap("scaler.step(optimizer)\nscaler.update()",
    "optimizer.step()"))
put("given, scaler = scaler, torch.amp.GradScaler('cpu', enabled=False)",
    before="for x, y in batches")

# %% wrong never-zeroed
# You never clear the gradients, so each batch adds to those of the batches before, and an inf stays
# in them. Call `optimizer.zero_grad()` once for each batch.
drop("optimizer.zero_grad()")
move("optimizer.zero_grad()", before="for x, y in batches")

# %% wrong update-forgotten
# You never call `scaler.update()`. The scaler needs it after each `step()`: the scale moves there,
# and a second `step()` before it raises this error.
drop("scaler.update()")
move("scaler.update()", after="for x, y in batches")

# %% wrong update-without-step
# `scaler.update()` found no gradients that the scaler has checked since the last update. It must
# follow `scaler.step(optimizer)`. Did you leave that call out, call `optimizer.step()` instead, or
# call `update()` twice?
swap("scaler.scale(loss).backward()\nscaler.step(optimizer)", "scaler.scale(loss).backward()")
swap("scaler.scale(loss).backward()\nscaler.step(optimizer)",
    "scaler.scale(loss).backward()\noptimizer.step()")

# %% wrong not-unscaled
# You scale the loss and then call `optimizer.step()` yourself. Nothing divides the gradients by the
# scale, so each step is far too large, and nothing skips a step that overflows. Call
# `scaler.step(optimizer)` and `scaler.update()`.
(swap("in batches", "in batches") &
    swap("scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    "scaler.scale(loss).backward()\noptimizer.step()"))
(swap("in batches", "in batches") &
    swap("scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    "scaler.scale(loss).backward()\noptimizer.step()\nscaler.update(scaler.get_scale())"))

# %% wrong step-past-the-scaler
# You call `optimizer.step()` yourself. Nothing skips a step that overflows, so inf goes into the
# weights. Call `scaler.step(optimizer)`: it skips the step if `unscale_` has found an inf.
(swap("loss_fn, batches):", "loss_fn, batches):") & swap("scaler.step(optimizer)",
    "scaler.unscale_(optimizer); optimizer.step()"))
(swap("loss_fn, batches):", "loss_fn, batches):") & swap("scaler.step(optimizer)\nscaler.update()",
    "scaler.unscale_(optimizer)\nscaler.update()\noptimizer.step()"))

# %% wrong batch-left-out
# You skip `backward()` where the loss is not finite, so the scaler doesn't see the overflow and
# doesn't lower its scale. Call `backward()` for every batch. `scaler.step` skips the bad steps.
