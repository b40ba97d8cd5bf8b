# %% statement points=3 minutes=15
# # A scaler that skips
#
# Write the class `StaticScaler`: loss scaling with a scale that stays the same.
#
# - `StaticScaler(scale)` raises a `ValueError` unless `scale` is a positive, finite power of two.
#   It may be below 1, and it may be an int.
# - `scale(loss)` returns the loss times the scale. It leaves `loss` itself alone. (`self.scale` is
#   this method, so give the number another name.)
# - `step(optimizer)` is called after `backward()`. It divides the gradients of all parameters in
#   all of the optimizer's groups by the scale. Some parameters may have no gradient. If every
#   gradient is finite, it calls `optimizer.step()` and returns True. If one holds inf or NaN, it
#   returns False and changes no weight and no optimizer state. `.grad` is unscaled either way.

# %% answer
class StaticScaler:
    """Loss scaling by a constant power of two, with steps skipped on overflow."""

    def __init__(self, scale):
        ### BEGIN SOLUTION
        if not 0 < scale < math.inf or math.frexp(scale)[0] != 0.5:
            raise ValueError(f"the scale must be a positive, finite power of two, got {scale}")
        self.factor = scale
        ### END SOLUTION

    def scale(self, loss):
        """The loss, multiplied."""
        ### BEGIN SOLUTION
        return loss * self.factor
        ### END SOLUTION

    def step(self, optimizer):
        """Unscale, check, and perhaps step. True if the step was taken."""
        ### BEGIN SOLUTION
        everything = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = [p.grad for p in everything if p.grad is not None]
        for gradient in gradients:
            gradient.div_(self.factor)
        if not all(gradient.isfinite().all() for gradient in gradients):
            return False
        optimizer.step()
        return True
        ### END SOLUTION

# %% hints
# - `optimizer.param_groups` is a list of dicts. Each holds its parameters under `"params"`.
# - Keep this order in `step`: divide every gradient by the scale, then check whether all of them
#   are finite. Only then call `optimizer.step()`, or skip it. Return which of the two you did.
# - `math.frexp(x)[0]` is 0.5 if `x` is a positive power of two, and for no other number.

# %% probe
from amp_lessons.exercises.amp_from_scratch.harness_training import in_training, scaler_cases

probe = Probe(scaler_cases, play=in_training, own=("torch.amp.grad_scaler",))

# %% judge
judge = Judge(asked_for="an object with the methods `scale(loss)` and `step(optimizer)`")

STEPS = "batches with a call of optimizer.step()"

def noted(entry, key):
    """What stands in an entry under a key; nothing if the case came to no training."""
    return entry["value"]["dict"].get(key, []) if is_dict(entry.get("value")) else []

def wrongly_stepped(seen, right):
    """The gradients after each step that was taken and should have been skipped."""
    for number in set(noted(seen, STEPS)) - set(noted(right, STEPS)):
        yield noted(seen, f"gradients after step {number}")

# %% passed
# Scale, unscale, check, skip. `GradScaler` does the same, and adapts its scale as well.

# %% right checks_before_it_divides
class StaticScaler:
    def __init__(self, scale):
        if scale not in [2.0**e for e in range(-126, 128)]:
            raise ValueError(f"{scale} is not a power of two")
        self.number = float(scale)

    def scale(self, loss):
        return self.number * loss

    def step(self, optimizer):
        found = 0
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    found += int((~torch.isfinite(p.grad)).sum())
                    p.grad = p.grad * (1 / self.number)
        if found:
            return False
        optimizer.step()
        return True

# %% right one_kernel
class StaticScaler:
    def __init__(self, scale):
        if math.frexp(scale)[0] != 0.5:
            raise ValueError(f"{scale!r} is not a positive power of two")
        self.s = float(scale)

    def scale(self, loss):
        return torch.mul(loss, self.s)

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        found, inverse = torch.zeros(1), torch.full((1,), 1 / self.s)
        torch._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)
        fine = found == 0
        if fine:
            optimizer.step()
        return fine

# %% rule any-scale
# You accept a scale that isn't a positive, finite power of two. Raise a `ValueError` for it.
def breaks(seen, right):
    return "error" in right and seen.get("value") == "accepted"
drop("if not 0")
swap("0 < scale < math.inf", "0 <= abs(scale) < math.inf") & swap("!= 0.5", "not in (0.5, -0.5)")

# %% rule good-scale-refused
# You refuse a scale that is allowed. A power of two may be below 1, such as 0.25, or an int: 1024.
def breaks(seen, right):
    error = seen.get("error", {})
    raised = error.get("type"), error.get("function")
    return "value" in right and raised == ("ValueError", "__init__")
swap("0 < scale", "1 <= scale")
put("if not isinstance(scale, float): raise ValueError", before="if not 0")

# %% rule scale-forgotten
# `scale(loss)` returns the loss as it was, so small gradients underflow. Return it times the scale.
def breaks(seen, right):
    key = "scale(loss) divided by loss, in the first batch"
    return noted(seen, key) == 1 != noted(right, key)
of("checks_before_it_divides", swap("self.number * loss", "loss"))
drop("for gradient in gradients:") & swap("loss * self.factor", "loss")

# %% rule loss-changed
# `scale(loss)` changes the caller's loss in place, and their log shows that. If you go through
# `.data`, autograd misses it too, and no gradient is scaled. Return a new tensor.
def breaks(seen, right):
    one, other = (noted(entry, "losses after scale(loss)")[:1] for entry in (seen, right))
    return one != other and one != []
put("loss *= self.factor", before="return loss") & swap("return loss * self.factor", "return loss")
of("one_kernel", swap("torch.mul(loss, self.s)", "loss.mul_(self.s)"))
(put("loss.data.mul_(self.factor)", before="return loss") &
    swap("return loss * self.factor", "return loss"))

# %% rule gradients-cleared
# You clear the gradients of a skipped step. `.grad` should hold them, so that the caller can look.
def breaks(seen, right):
    steps = range(1, 1 + len(noted(seen, "step() returned")))
    return any(noted(seen, f"gradients after step {n}") == [None] * 7 for n in steps)
put("optimizer.zero_grad()", before="return False")

# %% rule skips-one-parameter
# You leave out only the parameters whose gradient overflowed. Skip the whole step.
def breaks(seen, right):
    return any(None in got for got in wrongly_stepped(seen, right))
of("checks_before_it_divides", put("if not p.grad.isfinite().all(): p.grad = None",
    after="p.grad =") & drop("if found"))

# %% rule inf-replaced
# You replace the gradients that overflowed, by zeros or by other numbers, and step. That isn't a
# skipped step: momentum and Adam still move the weights. Don't call `optimizer.step()` at all.
def breaks(seen, right):
    return any(
        None not in got and all(map(math.isfinite, got)) for got in wrongly_stepped(seen, right)
    )
swap("return False", "[gradient.nan_to_num_(0.0, 0.0, 0.0) for gradient in gradients]")
put("gradient.clamp_(-65504, 65504).nan_to_num_(0)", before="gradient.div_")

# %% wrong not-unscaled
# You step with the scaled gradients. Divide each gradient in place, before the optimizer sees it.
drop("for gradient in gradients:")
swap("gradient.div_(self.factor)", "gradient = gradient / self.factor")
move("for gradient in gradients:", after="optimizer.step()")

# %% wrong unscaled-twice
# You divide the gradients by the scale more than once.
swap("gradient.div_(self.factor)", "gradient.div_(self.factor**2)")
put("for gradient in gradients: gradient /= self.factor", after="for gradient in")

# %% wrong multiplied-again
# You multiply the gradients by the scale. The loss was multiplied, so divide them.
swap("gradient.div_", "gradient.mul_")
of("checks_before_it_divides", swap("(1 / self.number)", "self.number"))

# %% wrong left-scaled-when-skipped
# After a skipped step some gradients are still scaled. Either you return before you divide, or you
# stop dividing at the first bad gradient. Divide all of them first, then check.
move("for gradient in gradients:", before="optimizer.step()")
put("if not gradient.isfinite().all(): return False", after="gradient.div_")
put("if not gradient.isfinite().all(): return False", before="gradient.div_")
of("checks_before_it_divides", put("if found: return False", before="p.grad ="))

# %% wrong never-skips
# You step even if a gradient holds inf or NaN, which ruins the weights. Check all gradients first.
drop("if not all")
swap("gradient.isfinite().all() for", "gradient is not None for")

# %% wrong nan-slips-through
# You look for inf only, so NaN slips through. `torch.isfinite` finds both.
swap("not all(gradient.isfinite().all()", "any(gradient.isinf().any()")
of("checks_before_it_divides", swap("~torch.isfinite(p.grad)", "p.grad.abs() == math.inf"))

# %% wrong inf-slips-through
# You look for NaN only, so inf slips through. `torch.isfinite` finds both.
swap("not all(gradient.isfinite().all()", "any(gradient.isnan().any()")
of("checks_before_it_divides", swap("~torch.isfinite(p.grad)", "p.grad != p.grad"))

# %% wrong loss-instead-of-gradients
# You check the loss. It is usually finite when a gradient overflows in FP16. Check those.
(put("self.fine = loss.isfinite()", before="return loss") &
    swap("all(gradient.isfinite().all() for gradient in gradients)", "self.fine"))
of("checks_before_it_divides", put("self.found = ~loss.isfinite()", before="return self") &
    swap("if found:", "if self.found:"))

# %% wrong one-gradient-checked
# You check one gradient only. Any may overflow, so a later check must not replace an earlier one.
swap("for gradient in gradients)", "for gradient in gradients[-1:])")
of("checks_before_it_divides", swap("found +=", "found ="))

# %% wrong first-group-only
# You handle the first parameter group only. The gradients of the others stay scaled, and nobody
# sees an inf in them. Go through all of `optimizer.param_groups`.
swap('for group in optimizer.param_groups for p in group["params"]',
    "for p in optimizer.param_groups[0]['params']")
of("checks_before_it_divides", swap("optimizer.param_groups:", "optimizer.param_groups[:1]:"))

# %% wrong large-taken-for-overflow
# You skip steps whose FP32 gradients are large but finite. Look for inf and NaN instead.
swap("gradient.isfinite().all()", "(gradient.abs() <= 65504).all()")
of("checks_before_it_divides", swap("~torch.isfinite(p.grad)", "~p.grad.half().isfinite()"))

# %% wrong squares-overflow
# You check a sum, norm or squares. They may overflow where no gradient does. Check every element.
swap("gradient.isfinite().all()", "gradient.square().sum().isfinite()")
swap("gradient.isfinite().all()", "gradient.sum().isfinite()")
of("checks_before_it_divides", swap("~torch.isfinite(p.grad)", "~(p.grad * p.grad).isfinite()"))

# %% wrong says-the-wrong-thing
# `step` should return True if it took the step and False if not: schedulers have to know.
swap("return False", "return True")
swap("return False", "return") & swap("return True", "return")
drop("return True")
(swap("return True", "return 0") & swap("return False", "return True") & swap("return 0",
    "return False"))
of("one_kernel", swap("return fine", "return True"))

# %% wrong wrong-type
swap("self.factor = scale", "self.factor = self.scale = scale")

# %% wrong ready-made

# %% program torchs_own_inside
class StaticScaler:
    def __init__(self, scale):
        if not 0 < scale < math.inf or math.frexp(scale)[0] != 0.5:
            raise ValueError
        self.number = float(scale)
        self.inner = torch.amp.GradScaler("cpu", init_scale=self.number)
        self.scale = self.inner.scale

    def step(self, optimizer):
        steps = []
        hook = optimizer.register_step_post_hook(lambda *_: steps.append(1))
        self.inner.unscale_(optimizer)
        self.inner.step(optimizer)
        self.inner.update(self.number)
        hook.remove()
        return bool(steps)
