# %% wrong another-precision
# Your forward pass doesn't run in FP16. Without autocast it runs in float32, and so it does on the
# CPU under `torch.autocast("cuda")`. `torch.autocast("cpu")` without a dtype means BF16. Use
# `torch.autocast("cpu", dtype=torch.float16)`.
unwrap("with torch.autocast")
swap(", dtype=torch.float16", "")
swap("dtype=torch.float16", "dtype=torch.bfloat16")

# %% wrong stale-weights
# One autocast region surrounds your whole loop. Until it ends, it keeps the 16-bit copies of the
# weights that it made first, so later batches see old weights. Open a region for each forward pass.
(unwrap('with torch.autocast("cpu", dtype=torch.float16)') &
    wrap('with torch.autocast("cpu", dtype=torch.float16):', "for ", nth=1))
(wrap("if True:", 'with torch.autocast("cpu", dtype=torch.float16)') &
    wrap('with torch.autocast("cpu", dtype=torch.half):', "for ", nth=1))

# %% wrong never-zeroed
# You don't remove the old gradients before each step, so they are added to the new ones. After one
# overflow they hold inf or NaN forever, and every later step is skipped. Call
# `optimizer.zero_grad()` once for each step.
drop("optimizer.zero_grad()")
move("optimizer.zero_grad()", before="for x, y")
move("optimizer.zero_grad()", after="for x, y")

# %% wrong zeroed-before-step
# You remove the gradients between `backward()` and `step()`, so nothing is left to step with.
# Remove them before the backward pass or after the step.
move("optimizer.zero_grad()", before="scaler.step")
drop("optimizer.zero_grad()") & put("model.zero_grad()", before="scaler.step")

# %% wrong infinities-replaced
# You replace inf and NaN in the gradients. Now the scaler cannot see the overflow: it takes a step
# with gradients that you made up, and never lowers the scale.
put("for p in model.parameters(): p.grad[~p.grad.isfinite()] = 0", after="scaler.scale")
put("for p in model.parameters(): p.grad.nan_to_num_(0.0, 0.0, 0.0)", after="scaler.scale")

# %% wrong batch-left-out
# You leave a batch out before the scaler has seen it, so the scale doesn't come down. And a finite
# loss can have gradients that are inf. Let the scaler decide.
put("if not loss.isfinite(): continue", before="scaler.scale")
wrap("if loss.isfinite():", "scaler.scale", to="scaler.update")
put("if x.abs().max() > 65504: continue", before="with torch")

# %% wrong never-unscaled
# The loss is scaled, but `optimizer.step()` doesn't know the scale. `scaler.step(optimizer)`
# divides the gradients, and skips the step if it finds an inf.
swap("scaler.scale(loss).backward()\nscaler.step(optimizer)",
    "scaler.scale(loss).backward()\noptimizer.step()")
swap("scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    "scaler.scale(loss).backward()\noptimizer.step()")
swap("scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    "(loss * scaler.get_scale()).backward()\noptimizer.step()")
(swap("scaler.scale(loss).backward()\nscaler.unscale_(optimizer)",
    "(loss * scaler.get_scale()).backward()") & swap("scaler.step(optimizer)\nscaler.update()",
    "optimizer.step()"))
(drop("scaler.unscale_(optimizer)") & swap("scaler.step(optimizer)\nscaler.update()",
    "optimizer.step()"))

# %% wrong stepped-without-the-scaler
# You call `optimizer.step()` yourself, so the scaler cannot skip the step when a gradient
# overflows, even if the loss is finite. Call `scaler.step(optimizer)`: it looks at the gradients.
swap("scaler.scale(loss).backward()\nscaler.step(optimizer)",
    "scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\noptimizer.step()")
swap(
    "scaler.scale(loss).backward()\nscaler.step(optimizer)",
    "scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\n"
    "if loss.isfinite(): optimizer.step()",
)
swap(
    "scaler.scale(loss).backward()\nscaler.step(optimizer)",
    "scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\n"
    "if not (loss.isnan() or loss.isinf()): optimizer.step()",
)

# %% wrong scaler-bypassed
# You train in FP16 without loss scaling: the scaler is gone, or switched off. Small gradients
# become zero, and a step with an inf is not skipped. Use the scaler's `scale`, `step` and `update`.
swap("scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    "loss.backward()\noptimizer.step()")
put('scaler = torch.amp.GradScaler("cpu", enabled=False)', before="for x, y")
(swap("scaler.scale(loss).backward()\nscaler.unscale_(optimizer)", "loss.backward()") &
    swap("scaler.step(optimizer)\nscaler.update()", "optimizer.step()"))

# %% wrong loss-not-scaled
# The scaler has never scaled anything when it is asked for a step, so it raises an AssertionError.
# Only `scaler.scale(loss)` sets up its scale. Call `backward()` on what it returns.
swap("scaler.scale(loss).backward()", "loss.backward()")
swap("scaler.scale(loss).backward()", "(loss * scaler.get_scale()).backward()")

# %% wrong plain-loss-backward
# `backward()` still gets the plain loss, and `scaler.step` divides its gradients by the scale.
# `scaler.scale(loss)` returns a new tensor and leaves `loss` alone: call `backward()` on that one.
swap("scaler.scale(loss)", "loss") & put("scaler.scale(loss)", before="loss.backward()")
put("scaler.scale(torch.ones(()))", before="for ", nth=1) & swap("scaler.scale(loss)", "loss")

# %% wrong divided-too-often
# You divide the gradients by the scale, and `scaler.step` divides them again. If you need true
# gradients early, call `scaler.unscale_(optimizer)`: `step` knows about it.
put("for p in model.parameters(): p.grad.div_(scaler.get_scale())", before="scaler.step(opti")
put("for p in model.parameters(): p.grad /= scaler.get_scale()", before="scaler.step(opti")

# %% wrong never-updated
# `scaler.update()` is missing, or comes only after the loop, so the second `step()` raises an
# error. The scale never changes either. Call `scaler.update()` once after each step.
drop("scaler.update()")
move("scaler.update()", after="for x, y")

# %% wrong scale-not-a-float
# You returned {got} where the task asks for the last scale, a float. `scaler.get_scale()` returns
# it. Don't use `scaler._scale`: that is a private tensor, and it changes in place.
swap("return scaler.get_scale()", "return scaler._scale")
drop("return scaler.get_scale()")

# %% wrong clipped-before-unscale
# You clip gradients that are still multiplied by the scale. Nearly all of them are cut, and after
# the division the model hardly moves. Call `scaler.unscale_(optimizer)` once, before you clip.
drop("scaler.unscale_(optimizer)")
move("scaler.unscale_(optimizer)", before="scaler.step")

# %% wrong not-clipped
# Nothing is clipped to `max_norm`: the clip is missing, or it comes after the step.
swap("(model.parameters(), max_norm)", '(model.parameters(), float("inf"))')
move("scaler.step(optimizer)", after="scaler.unscale_")

# %% wrong each-clipped-alone
# You clip each parameter's gradient by its own norm. That changes the direction of the step. Clip
# the norm of all gradients together: pass all parameters to one call of `clip_grad_norm_`.
swap("clip_grad_norm_(model.parameters(), max_norm)",
    "torch.stack([clip_grad_norm_(p, max_norm) for p in model.parameters()]).norm()")
(swap("(model.parameters(), max_norm)", '(model.parameters(), float("inf"))') &
    put("for p in model.parameters(): p.grad.mul_(min(1.0, max_norm / p.grad.norm()))",
    before="scaler.step"))

# %% wrong values-clipped
# You clip each element to `max_norm`, which changes the direction of the step. Clip the norm of all
# gradients together, with `clip_grad_norm_`.
(swap("(model.parameters(), max_norm)", '(model.parameters(), float("inf"))') &
    put("for p in model.parameters(): p.grad.clamp_(-max_norm, max_norm)", before="scaler.step"))
(swap("(model.parameters(), max_norm)", '(model.parameters(), float("inf"))') &
    put("torch.nn.utils.clip_grad_value_(model.parameters(), max_norm)", before="scaler.step"))

# %% wrong always-rescaled
# You bring every gradient to the norm `max_norm`. Clipping only makes gradients shorter: leave them
# alone where their norm is below the limit.
swap("(model.parameters(), max_norm)", '(model.parameters(), float("inf"))') & put(
    "total = sum((p.grad**2).sum() for p in model.parameters()).sqrt()\n"
    "for p in model.parameters(): p.grad *= max_norm / total",
    before="scaler.step",
)
swap("(model.parameters(), max_norm)", '(model.parameters(), float("inf"))') & put(
    "total = sum((p.grad**2).sum() for p in model.parameters()).sqrt()\n"
    "for p in model.parameters(): p.grad = p.grad / total * max_norm",
    before="scaler.step",
)
