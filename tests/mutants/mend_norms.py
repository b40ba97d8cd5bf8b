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


# === mutant: both_unscales_removed -> clipped-before-unscale
def mend_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    found = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        found.append(total_norm(model))
        clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return found

# === mutant: infinite_norms_left_out -> wrong-value
def mend_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    found = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = clip_grad_norm_(model.parameters(), max_norm)
        if norm.isfinite():
            found.append(norm.item())
        scaler.step(optimizer)
        scaler.update()
    return found

# === correct: one_tensor_of_norms
def mend_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    found = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        found.append(clip_grad_norm_(model.parameters(), max_norm))
        scaler.step(optimizer)
        scaler.update()
    return torch.stack(found)

# === correct: written_out
def mend_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    found = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = max(total_norm(model), 0.0)
        found.append(float("inf") if norm != norm else norm)
        for p in model.parameters():
            p.grad.mul_(min(1.0, max_norm / (norm + 1e-6)))
        scaler.step(optimizer)
        scaler.update()
    return tuple(found)


# === mutant: rescaled_always -> wrong-value
def mend_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    found = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        n = total_norm(model)
        found.append(n)
        for p in model.parameters():
            p.grad *= max_norm / n
        scaler.step(optimizer)
        scaler.update()
    return found
