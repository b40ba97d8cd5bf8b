# === mutant: as_given -> unscaled-twice
def mend_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    norms = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(total_norm(model))
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return norms


# === mutant: update_to_silence_the_error -> update-to-silence
def mend_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    norms = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(total_norm(model))
        scaler.update()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return norms


# === mutant: first_unscale_removed -> norm-of-scaled-gradients
def mend_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    norms = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        norms.append(total_norm(model))
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return norms


# === mutant: measured_last -> norm-after-clipping
def mend_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    norms = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        norms.append(total_norm(model))
        scaler.step(optimizer)
        scaler.update()
    return norms


# === mutant: only_measured -> not-clipped
def mend_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    norms = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(total_norm(model))
        scaler.step(optimizer)
        scaler.update()
    return norms


# === correct: second_unscale_removed
def mend_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    norms = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(total_norm(model))
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return norms


# === correct: divided_by_the_scale
def mend_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    norms = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        norms.append(total_norm(model) / scaler.get_scale())
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return norms
