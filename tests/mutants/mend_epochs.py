# === mutant: as_given -> scaler-each-epoch
def mend_epochs(model, optimizer, loss_fn, epochs, init_scale):
    for batches in epochs:
        scaler = torch.amp.GradScaler("cpu", init_scale=init_scale)
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return scaler.get_scale()


# === mutant: in_the_wrong_direction -> scaler-each-batch
def mend_epochs(model, optimizer, loss_fn, epochs, init_scale):
    for batches in epochs:
        for x, y in batches:
            scaler = torch.amp.GradScaler("cpu", init_scale=init_scale)
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return scaler.get_scale()


# === mutant: switched_off -> scaling-given-up
def mend_epochs(model, optimizer, loss_fn, epochs, init_scale):
    scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, enabled=False)
    for batches in epochs:
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return scaler.get_scale()


# === mutant: default_scale -> init-scale-ignored
def mend_epochs(model, optimizer, loss_fn, epochs, init_scale):
    scaler = torch.amp.GradScaler("cpu")
    for batches in epochs:
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return scaler.get_scale()


# === correct: state_carried_over
def mend_epochs(model, optimizer, loss_fn, epochs, init_scale):
    state = None
    for batches in epochs:
        scaler = torch.amp.GradScaler("cpu", init_scale=init_scale)
        if state:
            scaler.load_state_dict(state)
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        state = scaler.state_dict()
    return scaler.get_scale()
