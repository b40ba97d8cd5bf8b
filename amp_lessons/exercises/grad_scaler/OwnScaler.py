# %% statement points=4 minutes=25
# # Write your own GradScaler
#
# Write the class `OwnScaler`. It does what `torch.amp.GradScaler` does, with one optimizer.
#
# - `scale(loss)` returns the loss times the scale.
# - `unscale_(optimizer)` divides each gradient of the optimizer by the scale, in place. It notes
#   whether one holds an inf or a NaN. Any other gradient is good; the largest here are below 1e15.
#   A parameter whose `.grad` is None is left out.
# - `step(optimizer)` first calls `unscale_`, unless the caller has called it since the last
#   `update`. Then it calls `optimizer.step()`, but only if no gradient held an inf or a NaN.
# - `update()` ends the step. If a gradient held an inf or a NaN, it multiplies the scale by
#   `backoff_factor`. Otherwise the step was clean: after `growth_interval` clean steps in a row it
#   multiplies the scale by `growth_factor`.
# - `get_scale()` returns the scale as a number.
#
# Write it without `torch.amp`. The check trains with your scaler through clean steps, inf and NaN.

# %% answer
class OwnScaler:
    """Dynamic loss scaling for one optimizer."""

    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        ### BEGIN SOLUTION
        self.current = init_scale
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval = growth_interval
        self.clean_steps = 0
        self.found_inf = None  # None: the gradients of this step are still scaled
        ### END SOLUTION

    def scale(self, loss):
        ### BEGIN SOLUTION
        return loss * self.current
        ### END SOLUTION

    def unscale_(self, optimizer):
        ### BEGIN SOLUTION
        self.found_inf = False
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.div_(self.current)
                    self.found_inf |= not parameter.grad.isfinite().all().item()
        ### END SOLUTION

    def step(self, optimizer):
        ### BEGIN SOLUTION
        if self.found_inf is None:
            self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()
        ### END SOLUTION

    def update(self):
        ### BEGIN SOLUTION
        if self.found_inf:
            self.current *= self.backoff_factor
            self.clean_steps = 0
        else:
            self.clean_steps += 1
            if self.clean_steps == self.growth_interval:
                self.current *= self.growth_factor
                self.clean_steps = 0
        self.found_inf = None
        ### END SOLUTION

    def get_scale(self):
        ### BEGIN SOLUTION
        return self.current
        ### END SOLUTION

# %% hints
# - The scale and the number of clean steps last from step to step. Two more things belong to one
#   step: are the gradients unscaled, and was one of them bad?
# - `step` unscales if nobody has. `update` lowers the scale or counts, then forgets this step.

# %% probe
from amp_lessons.exercises.grad_scaler.harness import play_scaler, scaler_cases

probe = Probe(scaler_cases, play=play_scaler, own=("torch.amp.grad_scaler",))

# %% judge
judge = Judge(same=within(1e-5), asked_for="a scaler")

# %% passed
# That is all of GradScaler: a product, a division with a look for inf and NaN, an `if`, a counter.

# %% right one_list_of_gradients
class OwnScaler:
    def __init__(self, init_scale, *settings):
        self._scale, self._settings = torch.tensor(float(init_scale)), settings
        self._left, self._stage, self._bad = settings[-1], "scaled", False

    def scale(self, loss):
        return self._scale * loss

    def unscale_(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        torch._foreach_mul_(grads, (1 / self._scale.double()).item())
        self._bad = not bool(torch.isfinite(torch.cat([g.flatten() for g in grads])).all())
        self._stage = "unscaled"

    def step(self, optimizer):
        if self._stage == "scaled":
            self.unscale_(optimizer)
        return None if self._bad else optimizer.step()

    def update(self):
        growth, backoff, interval = self._settings
        self._left = interval if self._bad else self._left - 1
        if self._bad:
            self._scale = self._scale * backoff
        elif self._left == 0:
            self._scale, self._left = self._scale * growth, interval
        self._stage, self._bad = "scaled", False

    def get_scale(self):
        return self._scale

# %% right new_gradients
class OwnScaler:
    def __init__(self, *settings):
        self.value, self.growth, self.backoff, self.interval = settings
        self.left, self.unscaled, self.bad = self.interval, False, 0

    def scale(self, loss):
        return loss.mul(self.value)

    def unscale_(self, optimizer):
        self.unscaled = True
        for p in [p for g in optimizer.param_groups for p in g["params"] if p.grad is not None]:
            p.grad = p.grad / self.value
            self.bad += (~p.grad.isfinite()).sum().item()

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        return None if self.bad else optimizer.step()

    def update(self):
        self.left = self.interval if self.bad else self.left - 1
        if self.bad:
            self.value *= self.backoff
        elif self.left == 0:
            self.value, self.left = self.value * self.growth, self.interval
        self.unscaled, self.bad = False, 0

    def get_scale(self):
        return self.value

# %% rule method-missing
# Your class has no method `{missing}`. A training loop calls it.
def breaks(seen, right):
    missing = seen.get("value", {}).get("dict", {}).get("methods that are missing")
    return {"missing": missing} if missing else None
swap("def update(self)", "def _update(self)")

# %% rule library-called
# You called what torch's own scaler is made of. Here, write out what it does.
def breaks(seen, right):
    return seen.get("value", {}).get("dict", {}).get("operations of torch's own scaler")
of("one_list_of_gradients", swap("torch._foreach_mul_(grads, (1 / self._scale.double()).item())",
    "torch._amp_foreach_non_finite_check_and_unscale_(grads, torch.zeros(1), 1 / self._scale)"))

# %% wrong steps-anyway
# Your optimizer steps with an inf or a NaN, which ruins the weights for good. Skip the whole step.
unwrap("if not self.found_inf")
of("one_list_of_gradients", swap("None if self._bad else optimizer", "optimizer"))

# %% wrong overflow-zeroed
# You set bad gradients to zero and stepped. Momentum and weight decay still move the parameters.
unwrap("if not self.found") & put("parameter.grad.nan_to_num_(0, 0, 0)", after="self.found_inf |=")
of("new_gradients", swap("None if self.bad else optimizer", "optimizer") &
    put("p.grad[~p.grad.isfinite()] = 0.0", after="self.bad +="))

# %% wrong inf-missed
# You look for NaN only. An overflow is an inf at first. Use `torch.isfinite`: False for both.
swap("not parameter.grad.isfinite().all()", "parameter.grad.isnan().any()")
of("new_gradients", swap("(~p.grad.isfinite())", "(p.grad != p.grad)"))

# %% wrong nan-missed
# You look for inf only. inf - inf and 0 * inf are NaN. Use `torch.isfinite`: False for both.
swap("not parameter.grad.isfinite().all()", "parameter.grad.isinf().any()")
of("new_gradients", swap("(~p.grad.isfinite())", "p.grad.isinf()"))

# %% wrong large-taken-for-overflow
# You take a large gradient for an overflow. In FP32 only inf and NaN are signs of one.
swap("parameter.grad.isfinite()", "(parameter.grad.abs() < 65504)")
of("new_gradients", swap("~p.grad.isfinite()", "~(p.grad.abs() < 65504)"))

# %% wrong last-gradient-decides
# Only the last gradient counts: each overwrites what was found before. Collect it with `or`.
swap("|=", "=")
of("new_gradients", swap("self.bad +=", "self.bad ="))

# %% wrong first-group-only
# You look at `param_groups[0]` only. An optimizer can have several groups.
swap("in optimizer.param_groups", "in optimizer.param_groups[:1]")
of("one_list_of_gradients", swap("in optimizer.param_groups", "in [optimizer.param_groups[0]]"))

# %% wrong unscaled-twice
# If the caller has called `unscale_`, your `step` divides again. Remember it until `update`.
unwrap("if self.found_inf is None")
of("one_list_of_gradients", unwrap("if self._stage"))

# %% wrong unscaled-flag-kept
# The next gradients count as unscaled, so nobody divides them. Reset your flag in every `update`.
drop("self.found_inf = None", nth=2)
of("one_list_of_gradients", drop("self._stage, self._bad"))
of("new_gradients", swap("unscaled, self.bad = False", "unscaled, self.bad = self.bad > 0"))

# %% wrong never-unscaled
# Your optimizer steps with gradients that are still scaled. Divide them in `unscale_`.
drop("parameter.grad.div_")
of("one_list_of_gradients", drop("torch._foreach_mul_"))

# %% wrong loss-not-scaled
# Your `scale` returns the loss as it was, so after the division every gradient is too small.
swap("loss * self.current", "loss")
of("one_list_of_gradients", swap("self._scale * loss", "loss"))

# %% wrong found-inf-kept
# After one overflow you skip every later step too. Reset the flag before the next step.
of("new_gradients", swap("self.unscaled, self.bad = False, 0", "self.unscaled = False"))
of("one_list_of_gradients", swap("self._bad = not", "self._bad |= not") &
    swap('self._stage, self._bad = "scaled", False', 'self._stage = "scaled"'))

# %% wrong counter-survives-overflow
# You don't set the count to 0 at an overflow. Growth takes `growth_interval` clean steps in a row.
drop("self.clean_steps = 0", nth=2)
of("one_list_of_gradients", swap("self._left = interval if self._bad else self._left - 1",
    "self._left -= not self._bad"))

# %% wrong counter-not-reset
# You keep the counter after a growth. The next growth needs `growth_interval` clean steps again.
drop("self.clean_steps = 0", nth=3) & swap("== self.growth_interval", ">= self.growth_interval")
drop("self.clean_steps = 0", nth=3)
of("one_list_of_gradients", swap("self._scale * growth, interval", "self._scale * growth, 0"))

# %% wrong grows-too-late
# Your scale grows too late. With an interval of 2 it grows in the second clean `update` in a row.
swap("== self.growth_interval", "> self.growth_interval")
of("one_list_of_gradients", swap("self._left == 0", "self._left < 0"))

# %% wrong grows-every-step
# Your scale grows in every clean step. It has to wait for `growth_interval` of them.
unwrap("if self.clean_steps")
of("new_gradients", swap("elif self.left == 0", "else"))

# %% wrong never-grows
# Your scale never grows. After `growth_interval` clean steps in a row, `update` enlarges it.
drop("if self.clean_steps")
of("one_list_of_gradients", swap("self._scale * growth", "self._scale"))

# %% wrong factors-ignored
# You double and halve the scale, whatever `growth_factor` and `backoff_factor` are. Use them.
put("growth_factor, backoff_factor = 2.0, 0.5", before="self.growth_factor")
of("one_list_of_gradients", put("growth, backoff = 2.0, 0.5", after="growth, backoff"))

# %% wrong ready-made

# %% program torchs_own_inside
class OwnScaler:
    def __init__(self, *settings):
        self.inner = torch.amp.GradScaler("cpu", *settings)

    def __getattr__(self, name):
        return getattr(self.inner, name)

# %% program torchs_own
class OwnScaler(torch.amp.GradScaler):
    def __init__(self, *settings):
        super().__init__("cpu", *settings)
