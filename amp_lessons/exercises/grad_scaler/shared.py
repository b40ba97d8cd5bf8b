# %% wrong update-forgotten
# Your step ends without `update()`, or calls it before `step()`. The scaler then raises an error in
# the next step. Call `scaler.update()` after every `scaler.step()`, also when that skipped.
drop("scaler.update()")

# %% wrong optimizer-stepped-directly
# You call `optimizer.step()` yourself, so an inf or NaN goes into the weights. Let
# `scaler.step(optimizer)` call it: it looks first, and skips if a gradient is not finite.

# %% wrong no-update-after-skip
# After a skipped step you don't call `update()`: it stands below an `if`, or you return early. So
# the scale never falls, and the scaler refuses the next step. Call `scaler.update()` in every step.

# %% wrong scaler-not-asked
# `update()` raises an error, because the scaler hasn't looked at a gradient of this step. After
# `backward()`, call `scaler.step(optimizer)` while the gradients are there, not `optimizer.step()`.

# %% wrong another-precision
# Your forward pass runs in FP32 or BF16, whose range is wider. Write `torch.autocast("cpu",
# dtype=torch.float16)`: without the dtype that means BF16.
unwrap("with torch.autocast")
swap(", dtype=torch.float16", "")

# %% wrong inf-only
# You look for inf only. inf - inf and 0 * inf are NaN. Use `torch.isfinite`: False for both.

# %% wrong nan-only
# You look for NaN only. An overflow is an inf at first. Use `torch.isfinite`: False for both.

# %% wrong one-gradient-asked
# You look at one gradient. It can be finite where others overflow. Look at all of them.
