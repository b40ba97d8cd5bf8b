# === mutant: as_given -> update-without-step
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        if loss.isfinite():
            scaler.scale(loss).backward()
            scaler.step(optimizer)
        scaler.update()


# === mutant: guard_removed -> scale-blamed
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: loss_replaced_by_zero -> scale-blamed
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss.nan_to_num(0.0)).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: inputs_repaired -> numbers-made-up
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        x = torch.where(x.isnan(), 0.0, x)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: break_for_continue -> training-stopped
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        if not torch.isfinite(loss):
            break
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: gradients_asked_instead -> scale-never-falls
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        if all(torch.isfinite(p.grad).all() for p in model.parameters()):
            scaler.step(optimizer)
            scaler.update()


# === mutant: gradients_asked_and_update_all_the_same -> scale-blamed
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if all(p.grad.isfinite().all() for p in model.parameters()):
            scaler.step(optimizer)
        scaler.update()


# === mutant: scaler_left_out -> scaler-bypassed
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        if loss.isfinite():
            loss.backward()
            optimizer.step()


# === mutant: all_in_float32 -> not-in-fp16
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        if not loss.isfinite():
            continue
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: scaled_loss_asked -> scale-never-falls
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        if not scaler.scale(loss).half().isfinite():
            continue
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: both_under_the_if
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        if not loss.isnan():
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()


# === correct: batch_looked_at_before
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        if not torch.isfinite(x).all():
            continue
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: update_only_tried
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        if math.isfinite(loss.item()):
            scaler.scale(loss).backward()
            scaler.step(optimizer)
        try:
            scaler.update()
        except AssertionError:
            pass


# === correct: good_batches_chosen_first
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    good = [(x, y) for x, y in batches if not x.isnan().any()]
    for x, y in good:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(x)
        loss = loss_fn(out.to(torch.float32), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: scale_put_back
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        if loss.isnan():
            scaler.update(scaler.get_scale())
        else:
            scaler.update()


# === correct: state_put_back
def mend_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        kept = scaler.state_dict()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if not loss.isfinite():
            scaler.load_state_dict(kept)
