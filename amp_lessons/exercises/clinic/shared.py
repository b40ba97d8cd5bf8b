# %% wrong another-precision
# Your forward pass runs in FP32. Keep `torch.autocast("cpu", dtype=torch.float16)` around it.
swap("backward()", "backward()") & unwrap("with torch.autocast")
swap("backward()", "backward()") & swap("dtype=torch.float16", "enabled=False")

# %% wrong bfloat16-region
# Your layers run in BF16, the default of `torch.autocast("cpu")`. Keep `dtype=torch.float16`.
swap("scaler, loss_fn", "scaler, loss_fn") & swap(", dtype=torch.float16", "")
swap("scaler, loss_fn", "scaler, loss_fn") & swap("dtype=torch.float16", "dtype=torch.bfloat16")

# %% wrong scaler-bypassed
# You train without the scaler. It keeps small gradients from becoming zero in FP16, and it skips a
# step that overflows. Keep `scaler.scale`, `scaler.step` and `scaler.update`.
(swap("scaler.scale(loss)", "loss") & swap("scaler.step(optimizer)\nscaler.update()",
    "optimizer.step()"))
(swap("scaler.scale(loss)", "scaler.scale(loss)") &
    put("scaler = torch.amp.GradScaler('cpu', enabled=False)", before='"""'))
(swap("scaler.scale(loss)", "loss") & swap("scaler.step(optimizer)\nscaler.update()",
    "if loss.isfinite(): optimizer.step()"))

# %% wrong never-zeroed
# The gradients of earlier steps are still there when you add the next ones, and an inf would stay
# in them. Call `optimizer.zero_grad()` inside the loop, once for each step.
drop("optimizer.zero_grad()")
swap("optimizer.zero_grad()", "optimizer.zero_grad")

# %% wrong update-forgotten
# You never call `scaler.update()`. The scaler needs it after each `step()`: the scale moves there,
# and a second `step()` before it raises this error.
drop("scaler.update()")
swap("scaler.update()", "scaler.update")

# %% wrong update-without-step
# `scaler.update()` found no gradients that the scaler has checked since the last update. Did you
# leave `scaler.step(optimizer)` out, call `optimizer.step()` instead, or call `update()` twice?
swap("scaler.scale(loss).backward()\nscaler.step(optimizer)", "scaler.scale(loss).backward()")
swap("scaler.scale(loss).backward()\nscaler.step(optimizer)",
    "scaler.scale(loss).backward()\noptimizer.step()")

# %% wrong not-unscaled
# You scale the loss and call `optimizer.step()` yourself. Nothing divides the gradients by the
# scale or skips a step that overflows. Call `scaler.step(optimizer)` and `scaler.update()`.
(swap("in batches", "in batches") &
    swap("scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    "scaler.scale(loss).backward()\noptimizer.step()"))
(swap("in batches", "in batches") &
    swap("scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    "scaler.scale(loss).backward()\noptimizer.step()\nscaler.update(scaler.get_scale())"))

# %% wrong step-past-the-scaler
# You call `optimizer.step()` yourself. Nothing skips a step that overflows, so inf goes into the
# weights. Call `scaler.step(optimizer)`: it skips the step if `unscale_` has found an inf.
(swap("loss_fn, batches", "loss_fn, batches") &
    swap("scaler.scale(loss).backward()\nscaler.step(optimizer)",
    "scaler.scale(loss).backward()\nscaler.unscale_(optimizer); optimizer.step()"))
(swap("loss_fn, batches", "loss_fn, batches") &
    swap("scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    "scaler.scale(loss).backward()\nscaler.unscale_(optimizer); scaler.update(); optimizer.step()"))

# %% wrong stale-copies
# Your autocast region stays open from batch to batch. It keeps 16-bit copies of the weights, so the
# next forward pass doesn't use the new weights. Open the region inside the loop, for each batch.
wrap('with torch.autocast("cpu", dtype=torch.float16):', "for x, y in batches")
wrap('with torch.autocast("cpu", dtype=torch.float16):', "for x, z in batches")
wrap('with torch.autocast("cpu", dtype=torch.float16):', "for group in groups")
(swap("backward()", "backward()") &
    put("@torch.autocast('cpu', dtype=torch.float16)", before="def fix_"))

# %% wrong batch-left-out
# You skip `backward()` where the loss is not finite, so the scaler doesn't see the overflow and
# doesn't lower its scale. Call `backward()` for every batch. `scaler.step` skips the bad steps.
(put("if not loss.isfinite(): continue", before="scaler.scale") & swap("with torch", "with torch") &
    swap("loss.isfinite()", "loss.isfinite()") & swap("loss_fn, batches", "loss_fn, batches"))
(wrap("if loss.isfinite():", "scaler.sc", to="scaler.update()") & swap("with torch", "with torch") &
    swap("loss.isfinite()", "loss.isfinite()") & swap("loss_fn, batches", "loss_fn, batches"))
