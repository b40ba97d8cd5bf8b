# === mutant: any_bad_gradient -> always-the-scale
def why_skipped(model, x, target, scale):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    (loss * scale).backward()
    bad = any(not p.grad.isfinite().all() for p in model.parameters())
    return "scale" if bad else "no skip"


# === mutant: new_gradients_only -> always-the-scale
def why_skipped(model, x, target, scale):
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    (loss * scale).backward()
    bad = any(not p.grad.isfinite().all() for p in model.parameters())
    return "scale" if bad else "no skip"


# === mutant: stops_at_the_loss -> loss-only
def why_skipped(model, x, target, scale):
    params = list(model.parameters())
    for p in params:
        if p.grad is not None and not p.grad.isfinite().all():
            return "old gradient"
    if not x.isfinite().all() or not target.isfinite().all():
        return "input"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    if not loss.isfinite():
        return "forward"
    return "no skip"


# === mutant: asks_the_scaled_loss -> loss-only
def why_skipped(model, x, target, scale):
    params = list(model.parameters())
    for p in params:
        if p.grad is not None and not p.grad.isfinite().all():
            return "old gradient"
    if not x.isfinite().all() or not target.isfinite().all():
        return "input"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    if not loss.isfinite():
        return "forward"
    return "no skip" if (loss * scale).isfinite() else "scale"


# === mutant: autocast_left_out -> forward-in-float32
def why_skipped(model, x, target, scale):
    params = list(model.parameters())
    for p in params:
        if p.grad is not None and not p.grad.isfinite().all():
            return "old gradient"
    if not x.isfinite().all() or not target.isfinite().all():
        return "input"
    loss = nn.functional.mse_loss(model(x), target)
    if not loss.isfinite():
        return "forward"
    grads = torch.autograd.grad(loss * scale, params, retain_graph=True)
    if all(g.isfinite().all() for g in grads):
        return "no skip"
    grads = torch.autograd.grad(loss, params)
    if all(g.isfinite().all() for g in grads):
        return "scale"
    return "backward"


# === mutant: fresh_gradients -> old-gradient-overlooked
def why_skipped(model, x, target, scale):
    params = list(model.parameters())
    if not x.isfinite().all() or not target.isfinite().all():
        return "input"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    if not loss.isfinite():
        return "forward"
    grads = torch.autograd.grad(loss * scale, params, retain_graph=True)
    if all(g.isfinite().all() for g in grads):
        return "no skip"
    grads = torch.autograd.grad(loss, params)
    if all(g.isfinite().all() for g in grads):
        return "scale"
    return "backward"


# === mutant: accumulates -> old-gradient-overlooked
def why_skipped(model, x, target, scale):
    params = list(model.parameters())
    old = [p.grad for p in params if p.grad is not None]
    if not x.isfinite().all() or not target.isfinite().all():
        return "input"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    if not loss.isfinite():
        return "forward"
    grads = torch.autograd.grad(loss * scale, params, retain_graph=True)
    if all(g.isfinite().all() for g in [*grads, *old]):
        return "no skip"
    grads = torch.autograd.grad(loss, params)
    if all(g.isfinite().all() for g in [*grads, *old]):
        return "scale"
    return "backward"


# === mutant: batch_not_looked_at -> input-overlooked
def why_skipped(model, x, target, scale):
    params = list(model.parameters())
    for p in params:
        if p.grad is not None and not p.grad.isfinite().all():
            return "old gradient"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    if not loss.isfinite():
        return "forward"
    grads = torch.autograd.grad(loss * scale, params, retain_graph=True)
    if all(g.isfinite().all() for g in grads):
        return "no skip"
    grads = torch.autograd.grad(loss, params)
    if all(g.isfinite().all() for g in grads):
        return "scale"
    return "backward"


# === mutant: loss_not_looked_at -> forward-overlooked
def why_skipped(model, x, target, scale):
    params = list(model.parameters())
    for p in params:
        if p.grad is not None and not p.grad.isfinite().all():
            return "old gradient"
    if not x.isfinite().all() or not target.isfinite().all():
        return "input"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    grads = torch.autograd.grad(loss * scale, params, retain_graph=True)
    if all(g.isfinite().all() for g in grads):
        return "no skip"
    grads = torch.autograd.grad(loss, params)
    if all(g.isfinite().all() for g in grads):
        return "scale"
    return "backward"


# === mutant: scale_is_left -> backward-overlooked
def why_skipped(model, x, target, scale):
    params = list(model.parameters())
    for p in params:
        if p.grad is not None and not p.grad.isfinite().all():
            return "old gradient"
    if not x.isfinite().all() or not target.isfinite().all():
        return "input"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    if not loss.isfinite():
        return "forward"
    grads = torch.autograd.grad(loss * scale, params, retain_graph=True)
    if all(g.isfinite().all() for g in grads):
        return "no skip"
    return "scale"


# === mutant: without_the_scale -> unscaled-backward
def why_skipped(model, x, target, scale):
    params = list(model.parameters())
    for p in params:
        if p.grad is not None and not p.grad.isfinite().all():
            return "old gradient"
    if not x.isfinite().all() or not target.isfinite().all():
        return "input"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    if not loss.isfinite():
        return "forward"
    grads = torch.autograd.grad(loss, params, retain_graph=True)
    if all(g.isfinite().all() for g in grads):
        return "no skip"
    grads = torch.autograd.grad(loss, params)
    if all(g.isfinite().all() for g in grads):
        return "scale"
    return "backward"


# === mutant: loss_before_batch -> wrong-value
def why_skipped(model, x, target, scale):
    params = list(model.parameters())
    for p in params:
        if p.grad is not None and not p.grad.isfinite().all():
            return "old gradient"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    if not loss.isfinite():
        return "forward"
    if not x.isfinite().all() or not target.isfinite().all():
        return "input"
    grads = torch.autograd.grad(loss * scale, params, retain_graph=True)
    if all(g.isfinite().all() for g in grads):
        return "no skip"
    grads = torch.autograd.grad(loss, params)
    if all(g.isfinite().all() for g in grads):
        return "scale"
    return "backward"


# === mutant: prints_only -> returned-none
def why_skipped(model, x, target, scale):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    cause = "no skip" if loss.isfinite() else "forward"
    cause = cause.title()


# === correct: real_scaler
def why_skipped(model, x, target, scale):
    def bad_step(factor):
        scaler = torch.amp.GradScaler("cpu", init_scale=factor)
        for p in model.parameters():
            p.grad = None
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), target)
        scaler.scale(loss).backward()
        scaler.step(torch.optim.SGD(model.parameters(), lr=0.0))
        scaler.update()
        return scaler.get_scale() < factor, not torch.isfinite(loss)

    if any(p.grad is not None and (p.grad - p.grad != 0).any() for p in model.parameters()):
        return "old gradient"
    if not (torch.isfinite(x).all() and torch.isfinite(target).all()):
        return "input"
    skipped, bad_loss = bad_step(scale)
    if bad_loss:
        return "forward"
    if not skipped:
        return "no skip"
    return "backward" if bad_step(1.0)[0] else "scale"


# === correct: sums_and_backward
def why_skipped(model, x, target, scale):
    grads = [p.grad.sum() for p in model.parameters() if p.grad is not None]
    if grads and not torch.stack(grads).sum().isfinite():
        return "old gradient"
    if not (x.sum() + target.sum()).isfinite():
        return "input"
    causes = {}
    for factor in (scale, 1.0):
        model.zero_grad()
        with torch.autocast(device_type="cpu", dtype=torch.float16):
            loss = torch.nn.MSELoss()(model(x), target)
        if not loss.isfinite():
            return "forward"
        loss.mul(factor).backward()
        causes[factor] = all(p.grad.isfinite().all() for p in model.parameters())
    if causes[scale]:
        return "no skip"
    return "scale" if causes[1.0] else "backward"

# === mutant: isnan_everywhere -> nan-only
def why_skipped(model, x, target, scale):
    parameters = list(model.parameters())
    if any(p.grad is not None and p.grad.isnan().any() for p in parameters):
        return "old gradient"
    if x.isnan().any() or target.isnan().any():
        return "input"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    if loss.isnan():
        return "forward"
    scaled = torch.autograd.grad(loss * scale, parameters, retain_graph=True)
    if not any(g.isnan().any() for g in scaled):
        return "no skip"
    plain = torch.autograd.grad(loss, parameters)
    return "backward" if any(g.isnan().any() for g in plain) else "scale"

# === correct: on_a_copy
import copy


def why_skipped(model, x, target, scale):
    def finite(scale):
        twin = copy.deepcopy(model)
        twin.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(twin(x), target)
        (loss * scale).backward()
        return loss.isfinite(), all(p.grad.isfinite().all() for p in twin.parameters())

    if not all(p.grad is None or p.grad.isfinite().all() for p in model.parameters()):
        return "old gradient"
    if not (x.isfinite().all() and target.isfinite().all()):
        return "input"
    loss_is_good, good = finite(scale)
    if not loss_is_good:
        return "forward"
    if good:
        return "no skip"
    return "scale" if finite(1.0)[1] else "backward"


# === mutant: input_half -> wrong-value
def why_skipped(model, x, target, scale):
    ps = list(model.parameters())
    ok = lambda ts: all(t.isfinite().all() for t in ts)
    if not ok([p.grad for p in ps if p.grad is not None]): return "old gradient"
    if not ok([x.half()]) or not ok([target]): return "input"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    if not ok([loss]): return "forward"
    if ok(torch.autograd.grad(loss * scale, ps, retain_graph=True)): return "no skip"
    return "scale" if ok(torch.autograd.grad(loss, ps)) else "backward"


# === mutant: target_half -> wrong-value
def why_skipped(model, x, target, scale):
    ps = list(model.parameters())
    ok = lambda ts: all(t.isfinite().all() for t in ts)
    if not ok([p.grad for p in ps if p.grad is not None]): return "old gradient"
    if not ok([x]) or not ok([target.half()]): return "input"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    if not ok([loss]): return "forward"
    if ok(torch.autograd.grad(loss * scale, ps, retain_graph=True)): return "no skip"
    return "scale" if ok(torch.autograd.grad(loss, ps)) else "backward"


# === mutant: output_looked_at -> wrong-value
def why_skipped(model, x, target, scale):
    ps = list(model.parameters())
    ok = lambda ts: all(t.isfinite().all() for t in ts)
    if not ok([p.grad for p in ps if p.grad is not None]): return "old gradient"
    if not ok([x, target]): return "input"
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x)
        loss = nn.functional.mse_loss(out, target)
    if out.isinf().any(): return "forward"
    if ok(torch.autograd.grad(loss * scale, ps, retain_graph=True)): return "no skip"
    return "scale" if ok(torch.autograd.grad(loss, ps)) else "backward"


# === mutant: scale_large_number -> wrong-value
def why_skipped(model, x, target, scale):
    ps = list(model.parameters())
    ok = lambda ts: all(t.isfinite().all() for t in ts)
    if not ok([p.grad for p in ps if p.grad is not None]): return "old gradient"
    if not ok([x, target]): return "input"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    if not ok([loss]): return "forward"
    if ok(torch.autograd.grad(loss * scale, ps, retain_graph=True)): return "no skip"
    return "scale" if scale > 65504 else "backward"


# === mutant: bf16 -> forward-in-float32
def why_skipped(model, x, target, scale):
    ps = list(model.parameters())
    ok = lambda ts: all(t.isfinite().all() for t in ts)
    if not ok([p.grad for p in ps if p.grad is not None]): return "old gradient"
    if not ok([x, target]): return "input"
    with torch.autocast("cpu"):
        loss = nn.functional.mse_loss(model(x), target)
    if not ok([loss]): return "forward"
    if ok(torch.autograd.grad(loss * scale, ps, retain_graph=True)): return "no skip"
    return "scale" if ok(torch.autograd.grad(loss, ps)) else "backward"


# === mutant: any_old_gradient -> wrong-value
def why_skipped(model, x, target, scale):
    ps = list(model.parameters())
    ok = lambda ts: all(t.isfinite().all() for t in ts)
    if any(p.grad is not None for p in ps): return "old gradient"
    if not ok([x, target]): return "input"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    if not ok([loss]): return "forward"
    if ok(torch.autograd.grad(loss * scale, ps, retain_graph=True)): return "no skip"
    return "scale" if ok(torch.autograd.grad(loss, ps)) else "backward"
