# === mutant: scale_changed -> growth-counted
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        old = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() != old:
            skipped.append(i)
    return skipped


# === mutant: before_update -> asked-before-update
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        old = scaler.get_scale()
        scaler.step(optimizer)
        if scaler.get_scale() < old:
            skipped.append(i)
        scaler.update()
    return skipped


# === mutant: finite_loss -> loss-asked
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        old = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if not torch.isfinite(loss):
            skipped.append(i)
    return skipped


# === mutant: step_returned_none -> return-value-asked
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        old = scaler.get_scale()
        result = scaler.step(optimizer)
        scaler.update()
        if result is None:
            skipped.append(i)
    return skipped


# === mutant: weights_did_not_move -> parameters-compared
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        old = [p.clone() for p in model.parameters()]
        scaler.step(optimizer)
        scaler.update()
        if all(torch.equal(p, q) for p, q in zip(old, model.parameters())):
            skipped.append(i)
    return skipped


# === mutant: steps_that_were_made -> inverted
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        old = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= old:
            skipped.append(i)
    return skipped


# === mutant: from_one -> counts-from-one
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for i, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        old = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < old:
            skipped.append(i)
    return skipped


# === mutant: a_flag_a_step -> flags-returned
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        old = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        skipped.append(scaler.get_scale() < old)
    return skipped


# === mutant: as_in_seed_002 -> no-zero-grad
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for i, (x, y) in enumerate(batches):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        old = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < old:
            skipped.append(i)
    return skipped


# === mutant: full_precision -> no-autocast
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        old = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < old:
            skipped.append(i)
    return skipped


# === mutant: returns_nothing -> wrong-value
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        old = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < old:
            skipped.append(i)


# === mutant: bfloat16 -> wrong-value
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        old = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < old:
            skipped.append(i)
    return skipped


# === correct: looks_at_the_gradients
def skipped_steps(model, optimizer, scaler, batches):
    found = []
    for x, y in batches:
        with torch.autocast("cpu", torch.float16):
            loss = (model(x) - y).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        found.append(not all(p.grad.isfinite().all() for p in model.parameters()))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=False)
    return [i for i in range(len(found)) if found[i]]


# === correct: counts_with_a_hook
def skipped_steps(model, optimizer, scaler, batches):
    real = []
    now = [0]
    handle = optimizer.register_step_post_hook(lambda *_: real.append(now[0]))
    for now[0], (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast(device_type="cpu", dtype=torch.float16):
            out = model(x)
            loss = torch.nn.MSELoss()(out, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    handle.remove()
    return sorted(set(range(len(batches))) - set(real))

# === mutant: steps_past_the_scaler -> optimizer-stepped-directly
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for number, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        before = scaler.get_scale()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        optimizer.step()
        scaler.update()
        if scaler.get_scale() < before:
            skipped.append(number)
    return skipped

# === mutant: nan_loss -> nan-only
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for number, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if loss.isnan():
            skipped.append(number)
    return skipped

# === mutant: scaled_loss_is_inf -> loss-asked
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for number, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scaled = scaler.scale(nn.functional.mse_loss(model(x), y))
        scaled.backward()
        scaler.step(optimizer)
        scaler.update()
        if not scaled.isfinite():
            skipped.append(number)
    return skipped

# === correct: numpy_finds_the_falls
import numpy as np


def skipped_steps(model, optimizer, scaler, batches):
    scales = [scaler.get_scale()]
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return np.flatnonzero(np.diff(scales) < 0)

# === correct: scaler_log
from amp_lessons.scaling import ScalerLog


def skipped_steps(model, optimizer, scaler, batches):
    log = ScalerLog(scaler)
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        log.scale(loss).backward()
        log.step(optimizer)
        log.update()
        optimizer.zero_grad()
    return log.skipped_steps


# === mutant: isinf_only -> wrong-value
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        if any(p.grad.isinf().any() for p in model.parameters()):
            skipped.append(i)
        scaler.step(optimizer)
        scaler.update()
    return skipped


# === mutant: first_param_only -> wrong-value
def skipped_steps(model, optimizer, scaler, batches):
    skipped = []
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        if not next(model.parameters()).grad.isfinite().all():
            skipped.append(i)
        scaler.step(optimizer)
        scaler.update()
    return skipped


# === mutant: nan_grads -> nan-only
def skipped_steps(model, optimizer, scaler, batches):
    out = []
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        if any(torch.isnan(p.grad).any() for p in model.parameters()):
            out.append(i)
        scaler.step(optimizer)
        scaler.update()
    return out
