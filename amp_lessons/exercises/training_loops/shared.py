# %% wrong another-precision
# Your forward pass doesn't run in FP16. Wrap it in `torch.autocast("cpu", dtype=torch.float16)`.
# Without a `dtype`, autocast means BF16 on the CPU, and `torch.autocast("cuda")` does nothing
# there.
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
# You don't remove the old gradients, so they are added to the new ones. After one overflow they
# hold inf or NaN forever. Call `optimizer.zero_grad()` once for each step.
drop("optimizer.zero_grad()")
move("optimizer.zero_grad()", before="for x, y")
move("optimizer.zero_grad()", after="for x, y")

# %% wrong zeroed-before-step
# You remove the gradients after `backward()`, so nothing is left to step with. Remove them before
# it, or after the step.
move("optimizer.zero_grad()", before="scaler.step")
drop("optimizer.zero_grad()") & put("model.zero_grad()", before="scaler.step")

# %% wrong infinities-replaced
# You replace inf and NaN in the gradients. So the scaler steps with numbers that you made up, and
# never lowers its scale.
put("for p in model.parameters(): p.grad[~p.grad.isfinite()] = 0", after="scaler.scale")
put("for p in model.parameters(): p.grad.nan_to_num_(0.0, 0.0, 0.0)", after="scaler.scale")

# %% wrong batch-left-out
# You leave a batch out before the scaler sees it, so the scale doesn't come down. A finite loss,
# too, can have gradients that are inf. Let the scaler decide.
put("if not loss.isfinite(): continue", before="scaler.scale")
wrap("if loss.isfinite():", "scaler.scale", to="scaler.update")
put("if x.abs().max() > 65504: continue", before="with torch")

# %% wrong never-unscaled
# `optimizer.step()` doesn't know the scale. `scaler.step(optimizer)` divides, and skips if it must.
swap("scaler.scale(loss).backward()\nscaler.step(optimizer)",
    "scaler.scale(loss).backward()\noptimizer.step()")
swap("scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    "scaler.scale(loss).backward()\noptimizer.step()")
swap("scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    "(loss * scaler.get_scale()).backward()\noptimizer.step()")
(swap("scaler.scale(loss)", "(loss * scaler.get_scale())") & drop("scaler.unscale_") &
    swap("scaler.step(optimizer)\nscaler.update()", "optimizer.step()"))
drop("scaler.unscale_") & swap("scaler.step(optimizer)", "optimizer.step()") & drop("scaler.up")

# %% wrong stepped-without-the-scaler
# You call `optimizer.step()` yourself, so the scaler cannot skip the step when a gradient
# overflows, even if the loss is finite. Call `scaler.step(optimizer)`: it looks at the gradients.
swap("scaler.scale(loss).backward()\nscaler.step(optimizer)",
    "scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\noptimizer.step()")
swap("scaler.scale(loss).backward()\nscaler.step(optimizer)",
    "scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\n"
    "if loss.isfinite(): optimizer.step()")
swap("scaler.scale(loss).backward()\nscaler.step(optimizer)",
    "scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\nif loss < 1e4: optimizer.step()")

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
# `scaler.scale(loss)` returns a new tensor. Call `backward()` on the new tensor and not on `loss`.
swap("scaler.scale(loss)", "loss") & put("scaler.scale(loss)", before="loss.backward()")
put("scaler.scale(torch.ones(()))", before="for ", nth=1) & swap("scaler.scale(loss)", "loss")

# %% wrong divided-too-often
# You divide the gradients, and `scaler.step` does again. Call `scaler.unscale_(optimizer)` instead.
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

# %% wrong scale-read-too-early
# You read the scale before the last `update()`. If that lowers or raises it, you return an old one.
swap("return scaler.get_scale()", "return s") & put("s = scaler.get_scale()", before="scaler.up")
swap("return scaler.get_scale()", "return s") & put("s = scaler.get_scale()", before="scaler.st")

# %% wrong stale-scale
# You read the scale once, before the loop, and go on with that number after `update()` has changed
# the scale. From then on you multiply or divide by the wrong number. Read it for each batch.
(put("factor = scaler.scale(torch.ones(()))", before="for x, y") &
    swap("scaler.scale(loss)", "(loss * factor)"))
(put("scale = scaler.scale(torch.ones(())).item()", before="for x, y") &
    swap("scaler.scale(loss)", "(scale * loss)"))

# %% wrong clipped-before-unscale
# You clip gradients that are still multiplied by the scale. So nearly all of them are above the
# limit, and after the division the step is tiny. Call `scaler.unscale_(optimizer)` once, before you
# clip.
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
(swap(", max_norm)", ", 1e9)", nth=2) & put("for p in model.parameters(): "
    "p.grad *= min(1.0, max_norm / p.grad.norm())", before="scaler.step"))

# %% wrong values-clipped
# You clip each element, which changes the step's direction. Use `clip_grad_norm_` for all together.
(swap("(model.parameters(), max_norm)", '(model.parameters(), float("inf"))') &
    put("for p in model.parameters(): p.grad.clamp_(-max_norm, max_norm)", before="scaler.step"))
(swap("(model.parameters(), max_norm)", '(model.parameters(), float("inf"))') &
    put("torch.nn.utils.clip_grad_value_(model.parameters(), max_norm)", before="scaler.step"))

# %% wrong always-rescaled
# You bring every gradient to the norm `max_norm`. Leave it alone where its norm is below the limit.
(swap(", max_norm)", ", 1e9)", nth=2) &
    put("total = sum((p.grad**2).sum() for p in model.parameters()).sqrt()\n"
    "for p in model.parameters(): p.grad *= max_norm / total", before="scaler.step"))
(swap(", max_norm)", ", 1e9)", nth=2) &
    put("total = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])\n"
    "for p in model.parameters(): p.grad = p.grad / total * max_norm", before="scaler.step"))
