# === mutant: sum_of_losses -> loss-not-divided
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        if number % every == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


# === mutant: zeroed_out_of_habit -> gradients-thrown-away
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    for number, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y) / every
        scaler.scale(loss).backward()
        if number % every == 0:
            scaler.step(optimizer)
            scaler.update()


# === mutant: the_usual_loop -> stepped-each-micro-batch
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y) / every
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: update_outside_the_if -> updated-each-micro-batch
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y) / every
        scaler.scale(loss).backward()
        if number % every == 0:
            scaler.step(optimizer)
            optimizer.zero_grad()
        scaler.update()


# === mutant: unscale_outside_the_if -> unscaled-each-micro-batch
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y) / every
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if number % every == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


# === mutant: unscale_and_update_each_time -> unscaled-each-micro-batch
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    optimizer.zero_grad()
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y) / every
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.update()
        if number % every == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


# === correct: gradients_divided_once
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    for start in range(0, len(batches), every):
        optimizer.zero_grad()
        for x, y in batches[start : start + every]:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        for parameter in model.parameters():
            parameter.grad /= every
        scaler.step(optimizer)
        scaler.update()


# === correct: times_the_reciprocal
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    optimizer.zero_grad()
    for i, batch in enumerate(batches):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(batch[0]), batch[1]) * (1 / every)
        scaler.scale(loss).backward()
        if (i + 1) % every:
            continue
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
