# %% statement points=2 minutes=10
# # Clip in the right order
#
# Gradient clipping and loss scaling both change the gradients, so their order matters. Write
# `clip_step(scaler, optimizer, loss, max_norm)`, which makes a training step out of a loss.
#
# - `loss` is not scaled yet, and the gradients are cleared.
# - Limit the norm of *all* true (unscaled) gradients of the optimizer together to `max_norm`.
#   `nn.utils.clip_grad_norm_` computes and limits it.
# - Step and update with the scaler, so that it is ready for the next step.
# - Return the norm that the true gradients had before you clipped them, as a float or a tensor
#   with one element. If a gradient overflows, the norm may be inf or NaN.

# %% answer
def clip_step(scaler, optimizer, loss, max_norm):
    """Backward, clip and step; the norm of the gradients before clipping."""
    ### BEGIN SOLUTION
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm
    ### END SOLUTION

# %% hints
# - Which gradients is `max_norm` meant for: the true ones, or those times 65536?
# - Clipping needs one more call of the scaler, between `backward` and the clipping.
# - Go backward from the scaled loss, then `unscale_`, clip, `step` and `update`, in this order.

# %% probe
from amp_lessons.exercises.grad_scaler.harness import clip_cases, play_clip

probe = Probe(clip_cases, play=play_clip)

# %% judge
judge = Judge(same=within(1e-5))

# %% passed
# `unscale_` looks for inf and NaN too. Whatever clipping does to an inf, `step` knows and skips.

# %% right limit_times_scale
def clip_step(scaler, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scale = scaler.get_scale()
    params = [p for g in optimizer.param_groups for p in g["params"]]
    norm = nn.utils.clip_grad_norm_(params, max_norm * scale) / scale
    scaler.step(optimizer)
    scaler.update()
    return norm.item()

# %% right written_out
def clip_step(scaler, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    grads = [p.grad for g in optimizer.param_groups for p in g["params"]]
    norm = sum(g.square().sum() for g in grads).sqrt()
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for g in grads:
        g *= factor
    if norm.isfinite():
        scaler.step(optimizer)
    scaler.update()
    return float(norm)

# %% wrong clipped-before-unscale
# You clipped scaled gradients, which shrinks them far too much. Call `scaler.unscale_` before that.
drop("scaler.unscale_")
of("limit_times_scale", swap("max_norm * scale) / scale", "max_norm)"))
of("limit_times_scale", swap("max_norm * scale)", "max_norm)"))

# %% wrong not-clipped-in-time
# The optimizer stepped with gradients that weren't clipped. Clip between `unscale_` and `step`.
move("norm =", after="scaler.step")
of("written_out", drop("for g in"))

# %% wrong norm-of-scaled-gradients
# You return the norm of the scaled gradients. It jumps with the scale. Take it after `unscale_`.
(put("norm = torch.stack([p.grad.norm() for p in parameters]).norm()", before="scaler.unscale_") &
    swap("norm = nn.utils.clip", "nn.utils.clip") & move("parameters", before="norm ="))
of("limit_times_scale", swap(" / scale", ""))

# %% wrong divided-by-the-new-scale
# You divide the norm by the scale after `update`, which may have changed it. Read it before that.
of("limit_times_scale", swap(" / scale", "") & swap("norm.item()", "norm / scaler.get_scale()"))
(drop("scaler.unscale_") & swap("max_norm)", "max_norm * scaler.get_scale())", nth=2) &
    swap("return norm", "return norm / scaler.get_scale()"))

# %% wrong norm-after-clipping
# You return the norm that is left after clipping. `clip_grad_norm_` returns the one from before.
put("norm = nn.utils.get_total_norm([p.grad for p in parameters])", after="norm =")
put("norm = torch.stack([p.grad.norm() for p in parameters]).norm()", before="scaler.step")
swap("return norm", "return norm.clamp(max=max_norm)")

# %% wrong another-norm
# Your norm is not that of all gradients together, which is the root of the sum of all squared
# elements. Don't add up the norms of single tensors, and keep the default `norm_type`.
swap("parameters, max_norm)", "parameters, max_norm, norm_type=1)")
of("written_out", swap("g.square().sum() for g in grads).sqrt()", "g.abs().sum() for g in grads)"))
of("written_out", swap("g.square().sum() for g in grads).sqrt()", "g.norm() for g in grads)"))

# %% wrong divided-twice
# Your gradients are divided by the scale twice, so the model hardly moves. `unscale_` divides once,
# and `step` divides if you didn't call `unscale_`. Don't divide by hand as well.
(move("scaler.unscale_", before="norm =") & swap("scaler.unscale_(optimizer)",
    "for p in parameters: p.grad /= scaler.get_scale()"))
of("limit_times_scale", put("for p in params: p.grad = p.grad / scale", before="norm ="))
of("written_out", put("grads = [g.div_(scaler.get_scale()) for g in grads]", before="norm ="))

# %% wrong plain-loss-backward
# You called `backward()` on the plain loss: `scaler.scale(loss)` returns a new tensor. The scaler
# then divides gradients that were never multiplied. Write `scaler.scale(loss).backward()`.
swap("scaler.scale(loss).backward()", "scaler.scale(loss); loss.backward()")
of("written_out", swap("scaler.scale(loss)", "loss") & put("scaler.scale(loss)", before="loss"))

# %% wrong scale-not-made-yet
# The scaler makes its scale when you first call `scaler.scale(loss)`. Call that before `unscale_`.
swap("scaler.scale(loss).backward()", "loss.backward()")
move("scaler.unscale_", before="scaler.scale")

# %% wrong unscaled-twice
# You called `unscale_` twice in one step, which raises an error. One call divides all gradients.
put("scaler.unscale_(optimizer)", before="scaler.step")
swap("scaler.unscale_(optimizer)", "for _ in optimizer.param_groups: scaler.unscale_(optimizer)")

# %% wrong error-on-overflow
# You raise an error for an overflow, which is normal in FP16. Leave `error_if_nonfinite` at False.
swap("parameters, max_norm)", "parameters, max_norm, error_if_nonfinite=True)")
of("limit_times_scale", swap("max_norm * scale)", "max_norm * scale, 2.0, True)"))

# %% wrong optimizer-stepped-directly
swap("scaler.step(optimizer)", "optimizer.step()")
of("written_out", swap("if norm.isfinite():\nscaler.step(optimizer)", "optimizer.step()"))

# %% wrong step-forgotten
# Your optimizer never steps. Call `scaler.step(optimizer)` after the clipping.
drop("scaler.step(optimizer)")
wrap("if not norm.isfinite():", "scaler.step")

# %% wrong update-forgotten
move("scaler.update()", before="scaler.step")
of("limit_times_scale", drop("scaler.update()"))

# %% wrong no-update-after-skip
put("if not norm.isfinite():\n    return norm", before="scaler.step")
of("written_out", wrap("if norm.isfinite():", "scaler.update()"))
of("limit_times_scale", wrap("if norm.isfinite():", "scaler.update()"))

# %% wrong first-group-only
# You take the parameters of the first group only. An optimizer can have several groups.
swap("in optimizer.param_groups", "in optimizer.param_groups[:1]")
put('parameters = optimizer.param_groups[0]["params"]', before="norm =")

# %% wrong clipped-in-parts
# You clip in parts, which changes the direction. Call `clip_grad_norm_` once for all parameters.
wrap('for parameters in (group["params"] for group in optimizer.param_groups):', "norm =")
(put("for p in parameters: nn.utils.clip_grad_norm_([p], max_norm)", after="norm =") &
    swap("nn.utils.clip_grad_norm_(parameters, max_norm)",
    "nn.utils.get_total_norm([p.grad for p in parameters])", nth=1))
swap("nn.utils.clip_grad_norm_(parameters, max_norm)",
    "sum(nn.utils.clip_grad_norm_(g['params'], max_norm)**2 for g in optimizer.param_groups)**0.5")
of("written_out", swap("g *= factor", "g *= (max_norm / (g.norm() + 1e-6)).clamp(max=1)"))

# %% wrong clipped-by-value
# You limit each element to `max_norm`. Use `clip_grad_norm_`, which keeps the step's direction.
(swap("nn.utils.clip_grad_norm_", "nn.utils.clip_grad_value_") &
    swap("norm = nn", "norm = nn.utils.get_total_norm([p.grad for p in parameters])\n    nn"))
of("written_out", swap("g *= factor", "g.clamp_(-max_norm, max_norm)"))

# %% wrong enlarged
# You enlarge a gradient whose norm is below `max_norm`. Clipping leaves it as it is.
of("written_out", swap(".clamp(max=1.0)", ""))
(swap("clip_grad_norm_(parameters, max_norm)", "get_total_norm([p.grad for p in parameters])") &
    put("for p in parameters: p.grad *= max_norm / norm", before="scaler.step"))

# %% wrong norm-not-returned
# Your function returns None. Return the norm: `clip_grad_norm_` gives it to you.
drop("return norm")
swap("return norm", "print(f'norm {norm:.3g}')")
