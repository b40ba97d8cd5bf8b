# %% wrong update-forgotten
# Your step ends without `update()`, or calls it before `step()`. The scaler then takes the next
# step for the same one, and refuses. Call `scaler.update()` once, after every `scaler.step()`,
# also when the step was skipped.
drop("scaler.update()")
move("scaler.update()", before="scaler.step")

# %% wrong optimizer-stepped-directly
# You call `optimizer.step()` yourself. It doesn't look at the gradients, so an inf or NaN goes into
# the weights. `scaler.step(optimizer)` looks first, and calls `optimizer.step()` only if all
# gradients are finite.

# %% wrong no-update-after-skip
# After a skipped step you don't call `update()`: it stands below an `if`, or you return early. So
# the scale never falls, and the scaler refuses the next step. Call `scaler.update()` in every step.
