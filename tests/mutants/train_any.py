# === mutant: a_scaler_for_all_mixed_precision -> bf16-scaled
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    mixed = precision != "fp32"
    scaler = torch.amp.GradScaler("cpu", enabled=mixed)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=mixed):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()


# === mutant: always_a_scaler -> bf16-scaled
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    mixed = precision != "fp32"
    scaler = torch.amp.GradScaler("cpu", enabled=True)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=mixed):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()


# === mutant: never_a_scaler -> fp16-not-scaled
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    mixed = precision != "fp32"
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=mixed):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()


# === mutant: no_dtype -> default-dtype
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    mixed = precision != "fp32"
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", enabled=mixed):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()


# === mutant: autocast_in_all_three -> fp32-under-autocast
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    mixed = precision != "fp32"
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()


# === mutant: clipped_as_in_float32 -> clipped-scaled-gradients
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    mixed = precision != "fp32"
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=mixed):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()


# === mutant: max_norm_unused -> not-clipped
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    mixed = precision != "fp32"
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=mixed):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()


# === mutant: model_moved -> model-cast
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    model.to(dtype)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.enable_grad():
            loss = loss_fn(model(x.to(dtype)), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()


# === correct: float32_dtype_disables
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    from contextlib import nullcontext

    scaler = torch.amp.GradScaler("cpu", enabled="fp16" in precision)
    dtypes = {"bf16": torch.bfloat16, "fp16": torch.float16}
    for x, y in batches:
        region = nullcontext()
        if precision in dtypes:
            region = torch.autocast("cpu", dtype=dtypes[precision])
        with region:
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        if scaler.is_enabled():
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return scaler.get_scale()


# === mutant: gradients_add_up -> never-zeroed
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    dtype = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    for x, y in batches:
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()

# === correct: two_branches
from contextlib import nullcontext


def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    dtypes = {"bf16": torch.bfloat16, "fp16": torch.float16}
    scaler = torch.amp.GradScaler("cpu") if precision == "fp16" else None
    for x, y in batches:
        region = torch.autocast("cpu", dtypes[precision]) if precision in dtypes else nullcontext()
        with region:
            logits = model(x)
        loss = loss_fn(logits.float(), y)
        (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), max_norm)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.zero_grad()
    return scaler.get_scale() if scaler else 1.0


# === correct: clip_by_hand
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=precision != "fp32"):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.linalg.vector_norm(torch.cat([p.grad.flatten() for p in model.parameters()]))
        if norm > max_norm:
            for p in model.parameters():
                p.grad.mul_(max_norm / norm)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()


# === correct: no_scaler_at_all
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    scaler = torch.amp.GradScaler("cpu") if precision == "fp16" else None
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=precision != "fp32"):
            loss = loss_fn(model(x), y)
        if scaler is None:
            loss.backward()
            clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            clip_grad_norm_(model.parameters(), max_norm * scaler.get_scale())
            scaler.step(optimizer)
            scaler.update()
    return scaler.get_scale() if scaler else 1.0


# === mutant: loss_asked -> wrong-value
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=precision != "fp32"):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), max_norm)
        if loss.isfinite():
            optimizer.step()
        scaler.update()
    return scaler.get_scale()
