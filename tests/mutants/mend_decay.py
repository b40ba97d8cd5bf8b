# === mutant: as_given -> decay-before-unscale
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.grad.add_(parameter, alpha=decay)
        scaler.step(optimizer)
        scaler.update()


# === mutant: unscaled_after_the_decay -> decay-before-unscale
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.grad.add_(parameter, alpha=decay)
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()


# === mutant: after_the_step -> decay-without-effect
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.grad.add_(parameter, alpha=decay)
        scaler.update()


# === mutant: divided_by_hand -> divided-twice
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        for parameter in model.parameters():
            parameter.grad /= scaler.get_scale()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.grad.add_(parameter, alpha=decay)
        scaler.step(optimizer)
        scaler.update()


# === mutant: shrunk_whatever_happens -> decay-in-skipped-steps
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 - optimizer.param_groups[0]["lr"] * decay)
        scaler.step(optimizer)
        scaler.update()


# === mutant: shrunk_after_the_step -> decay-in-skipped-steps
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 - optimizer.param_groups[0]["lr"] * decay)


# === mutant: penalty_beside_the_scaled_loss -> decay-before-unscale
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        (scaler.scale(loss) + decay / 2 * sum((p**2).sum() for p in model.parameters())).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: scaler_left_out -> scaler-bypassed
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        loss.backward()
        for p in model.parameters():
            p.grad.add_(p.detach(), alpha=decay)
        optimizer.step()


# === mutant: all_in_float32 -> not-in-fp16
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        for p in model.parameters():
            p.grad.add_(p.detach(), alpha=decay)
        scaler.step(optimizer)
        scaler.update()


# === mutant: not_in_place -> decay-without-effect
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.grad.add(parameter, alpha=decay)
        scaler.step(optimizer)
        scaler.update()


# === correct: the_optimizers_own
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for group in optimizer.param_groups:
        group["weight_decay"] = decay
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: in_the_loss
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        squares = sum((p**2).sum() for p in model.parameters())
        scaler.scale(loss + 0.5 * decay * squares).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: times_the_scale
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        for parameter in model.parameters():
            parameter.grad += decay * scaler.get_scale() * parameter.detach()
        scaler.step(optimizer)
        scaler.update()


# === correct: shrunk_in_real_steps_only
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if all(p.grad.isfinite().all() for p in model.parameters()):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter *= 1 - optimizer.param_groups[0]["lr"] * decay
        scaler.step(optimizer)
        scaler.update()


# === correct: fused_optimizer_with_its_own
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    optimizer = torch.optim.SGD(
        model.parameters(), lr=optimizer.param_groups[0]["lr"], weight_decay=decay, fused=True
    )
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: added_by_a_hook_of_the_optimizer
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    @torch.no_grad()
    def add(optimizer, args, kwargs):
        for p in model.parameters():
            p.grad += decay * p

    handle = optimizer.register_step_pre_hook(add)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    handle.remove()


# === correct: after_the_step_where_the_scale_did_not_fall
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    rate = optimizer.param_groups[0]["lr"]
    for x, y in batches:
        optimizer.zero_grad()
        before = [p.detach().clone() for p in model.parameters()]
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scale = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() >= scale:
            with torch.no_grad():
                for p, b in zip(model.parameters(), before):
                    p -= rate * decay * b


# === correct: added_by_hooks_of_the_parameters
def mend_decay(model, optimizer, scaler, loss_fn, batches, decay):
    def add(p):
        with torch.no_grad():
            p.grad.add_(p, alpha=decay * scaler.get_scale())

    handles = [p.register_post_accumulate_grad_hook(add) for p in model.parameters()]
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    for h in handles:
        h.remove()
