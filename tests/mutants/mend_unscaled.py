# === mutant: as_given -> loss-not-scaled
def mend_unscaled(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        loss.backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: result_of_scale_unused -> divided-too-often
def mend_unscaled(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss)
        loss.backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: scaler_removed -> scaler-bypassed
def mend_unscaled(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()


# === mutant: optimizer_steps_itself -> never-unscaled
def mend_unscaled(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        optimizer.step()


# === mutant: divided_by_hand -> divided-too-often
def mend_unscaled(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        for p in model.parameters():
            p.grad.div_(scaler.get_scale())
        scaler.step(optimizer)
        scaler.update()


# === correct: scaled_under_autocast
def mend_unscaled(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = scaler.scale(loss_fn(model(x), y))
        optimizer.zero_grad()
        loss.backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()


# === mutant: old_backward_left_in -> backward-twice
def mend_unscaled(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward(retain_graph=True)
        loss.backward()
        scaler.step(optimizer)
        scaler.update()

# === mutant: scale_made_for_nothing -> divided-too-often
def mend_unscaled(model, optimizer, scaler, loss_fn, batches):
    scaler.scale(torch.ones(()))  # now it has one
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        loss.backward()
        scaler.step(optimizer)
        scaler.update()

# === mutant: no_autocast_any_more -> another-precision
def mend_unscaled(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

# === correct: scale_as_gradient_of_the_loss
def mend_unscaled(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
        loss = loss_fn(logits.float(), y)
        loss.backward(gradient=scaler.scale(torch.ones_like(loss)))
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()


# === mutant: optimizer_step_if_finite -> wrong-value
def mend_unscaled(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if loss.isfinite():
            optimizer.step()
        scaler.update()
