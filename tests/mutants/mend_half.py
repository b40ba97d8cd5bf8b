# === mutant: as_given -> half-parameters
def mend_half(model, optimizer, scaler, loss_fn, batches):
    model.half()
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x.half()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: autocast_added_to_it -> half-parameters
def mend_half(model, optimizer, scaler, loss_fn, batches):
    model.half()
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: no_scaler_no_error -> scaler-thrown-out
def mend_half(model, optimizer, scaler, loss_fn, batches):
    model.half()
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x.half()), y)
        loss.backward()
        optimizer.step()


# === mutant: model_left_alone_inputs_not -> inputs-cast-by-hand
def mend_half(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x.half()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: back_to_float32 -> autocast-left-out
def mend_half(model, optimizer, scaler, loss_fn, batches):
    model.float()
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: half_inputs_under_autocast
def mend_half(model, optimizer, scaler, loss_fn, batches):
    model.float()
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x.half()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


# === mutant: autocast_with_its_default -> default-dtype
def mend_half(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu"):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

# === mutant: autocast_instead_of_the_scaler -> scaler-left-out
def mend_half(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()

# === correct: logits_to_float32
def mend_half(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

# === correct: decorated
def mend_half(model, optimizer, scaler, loss_fn, batches):
    @torch.autocast("cpu", dtype=torch.float16)
    def loss_of(x, y):
        return loss_fn(model(x), y)

    for x, y in batches:
        optimizer.zero_grad()
        scaler.scale(loss_of(x, y)).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: functional_half
def mend_half(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        halves = {k: p.half() for k, p in model.named_parameters()}
        loss = loss_fn(torch.func.functional_call(model, halves, x.half()).float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: apex_o2
def mend_half(model, optimizer, scaler, loss_fn, batches):
    import copy
    half = copy.deepcopy(model).half()
    for x, y in batches:
        with torch.no_grad():
            for h, p in zip(half.parameters(), model.parameters()):
                h.copy_(p)
                h.grad = None
        scaler.scale(loss_fn(half(x.half()).float(), y)).backward()
        for h, p in zip(half.parameters(), model.parameters()):
            p.grad = h.grad.float()
        scaler.step(optimizer)
        scaler.update()


# === mutant: optimizer_step_if_finite -> wrong-value
def mend_half(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if loss.isfinite():
            optimizer.step()
        scaler.update()


# === mutant: inf_only_zeroed -> wrong-value
def mend_half(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        [p.grad.masked_fill_(~p.grad.isfinite(), 0) for p in model.parameters() if p.grad is not None]
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        pass
        scaler.scale(loss).backward()
        pass
        scaler.step(optimizer)
        pass
        scaler.update()
        pass
