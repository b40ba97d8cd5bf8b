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


# === mutant: gradients_of_all_groups -> never-zeroed
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y) / every
        scaler.scale(loss).backward()
        if number % every == 0:
            scaler.step(optimizer)
            scaler.update()

# === mutant: counted_from_zero -> group-ends-too-soon
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    optimizer.zero_grad()
    for number, (x, y) in enumerate(batches):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y) / every
        scaler.scale(loss).backward()
        if number % every == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

# === mutant: smaller_rate -> rate-divided
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] / every
    optimizer.zero_grad()
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        if number % every == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

# === mutant: concatenated -> joined-into-one-batch
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    for start in range(0, len(batches), every):
        group = batches[start : start + every]
        x = torch.cat([x for x, _ in group])
        y = torch.cat([y for _, y in group])
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

# === mutant: bad_piece_left_out -> bad-batch-left-out
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    optimizer.zero_grad()
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y) / every
        if torch.isfinite(loss):
            scaler.scale(loss).backward()
        if number % every == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

# === mutant: zeroed_each_time_and_not_divided -> gradients-thrown-away
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    for number, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        if number % every == 0:
            scaler.step(optimizer)
            scaler.update()

# === correct: one_backward_for_the_mean
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            losses.append(loss_fn(model(x).float(), y))
        if len(losses) == every:
            scaler.scale(torch.stack(losses).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            losses.clear()


# === mutant: last_loss_only -> gradients-thrown-away
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    for i, (x, y) in enumerate(batches):
        if i % every == 0: optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        if (i + 1) % every == 0:
            scaler.scale(loss).backward()
            scaler.step(optimizer); scaler.update()


# === mutant: lr_divided_and_restored -> rate-divided
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    for g in optimizer.param_groups: g["lr"] /= every
    for i, (x, y) in enumerate(batches):
        if i % every == 0: optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        if (i + 1) % every == 0:
            scaler.step(optimizer); scaler.update()
    for g in optimizer.param_groups: g["lr"] *= every


# === mutant: loss_asked -> wrong-value
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    good = True
    for i, (x, y) in enumerate(batches):
        if i % every == 0:
            optimizer.zero_grad()
            good = True
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y) / every
        good = good and bool(loss.isfinite())
        scaler.scale(loss).backward()
        if (i + 1) % every == 0:
            scaler.unscale_(optimizer)
            if good:
                optimizer.step()
            scaler.update()
