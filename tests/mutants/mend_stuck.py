# === mutant: as_given -> never-zeroed
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: once_before_the_loop -> never-zeroed
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad()
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: between_backward_and_step -> zeroed-before-step
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        optimizer.zero_grad()
        scaler.step(optimizer)
        scaler.update()


# === mutant: filled_with_zeros_to_please_the_scaler -> zeroed-before-step
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        optimizer.zero_grad(set_to_none=False)
        scaler.step(optimizer)
        scaler.update()


# === mutant: only_after_a_skip -> zeroed-after-skips-only
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scale = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() < scale:
            model.zero_grad()


# === mutant: infinities_removed -> infinities-replaced
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        for p in model.parameters():
            p.grad[~p.grad.isfinite()] = 0
        scaler.step(optimizer)
        scaler.update()


# === correct: after_the_step
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    for images, labels in batches:
        with torch.autocast(device_type="cpu", dtype=torch.half):
            scaled = scaler.scale(loss_fn(model(images), labels))
        scaled.backward()
        scaler.step(optimizer)
        scaler.update()
        model.zero_grad(set_to_none=False)


# === correct: unscaled_first
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    parameters = list(model.parameters())
    for images, labels in batches:
        with torch.autocast("cpu", torch.float16):
            loss = loss_fn(model(images), labels)
        gradients = torch.autograd.grad(scaler.scale(loss), parameters)
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()


# === mutant: bad_losses_left_out -> batch-left-out
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        if not loss.isfinite():
            continue
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

# === mutant: without_autocast -> another-precision
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

# === mutant: autocast_with_its_default -> another-precision
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu"):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

# === mutant: after_the_last_batch -> never-zeroed
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    optimizer.zero_grad()

# === correct: gradients_set_and_not_added
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    parameters = list(model.parameters())
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x).float(), y)
        gradients = torch.autograd.grad(scaler.scale(loss), parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        scaler.step(optimizer)
        scaler.update()


# === mutant: optimizer_step_if_finite -> wrong-value
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if loss.isfinite():
            optimizer.step()
        scaler.update()


# === correct: between_step_and_update
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        pass
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        pass
        scaler.scale(loss).backward()
        pass
        scaler.step(optimizer)
        optimizer.zero_grad()
        scaler.update()
        pass
