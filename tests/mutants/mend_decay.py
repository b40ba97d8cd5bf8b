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


# === mutant: after_the_step -> decay-after-step
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
