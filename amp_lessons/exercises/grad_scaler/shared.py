# %% wrong update-forgotten
# Your step ends without `update()`, or calls it before `step()`. The scaler then raises an error in
# the next step. Call `scaler.update()` after every `scaler.step()`, also when that skipped.
drop("scaler.update()")

# %% wrong optimizer-stepped-directly
# You call `optimizer.step()` yourself. It doesn't look at the gradients, so an inf or NaN goes into
# the weights. `scaler.step(optimizer)` looks first, and calls `optimizer.step()` only if all
# gradients are finite.

# %% wrong no-update-after-skip
# After a skipped step you don't call `update()`: it stands below an `if`, or you return early. So
# the scale never falls, and the scaler refuses the next step. Call `scaler.update()` in every step.

# %% wrong scaler-not-asked
# `update()` raises an error, because the scaler hasn't looked at a gradient of this step. Call
# `scaler.step(optimizer)` after `backward()` and before `update()`, while the gradients are still
# there. Don't call `optimizer.step()` yourself.

# %% wrong another-precision
# Your forward pass doesn't run in FP16. It runs in FP32, or in BF16, which is what
# `torch.autocast("cpu")` means without a dtype. Both have a wider range, so these numbers don't
# overflow there. Write `torch.autocast("cpu", dtype=torch.float16)`.
unwrap("with torch.autocast")
swap(", dtype=torch.float16", "")

# %% wrong inf-only
# You look for inf only. Bad gradients can also be NaN, because inf - inf and 0 * inf are NaN. Use
# `torch.isfinite`, which is False for both.

# %% wrong nan-only
# You look for NaN only. An overflow is an inf at first, and often stays one. Use `torch.isfinite`,
# which is False for both.

# %% wrong one-gradient-asked
# You look at the gradient of one parameter. Often a single gradient overflows and the others are
# finite. Look at all of them.
