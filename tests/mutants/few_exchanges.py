# === mutant: accumulation_as_on_one_gpu -> exchanged-each-time
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad()
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y) / len(batches)
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


# === mutant: around_backward_only -> exchanged-each-time
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(batches):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y) / len(batches)
        if i < len(batches) - 1:
            with model.no_sync():
                scaler.scale(loss).backward()
        else:
            scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


# === mutant: around_the_whole_loop -> never-exchanged
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad()
    with model.no_sync():
        for x, y in batches:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) / len(batches)
            scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


# === mutant: first_one_exchanged -> exchanged-too-early
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(batches):
        with model.no_sync() if i else contextlib.nullcontext():
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) / len(batches)
            scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


# === mutant: sum_and_not_mean -> loss-not-divided
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(batches, 1):
        with model.no_sync() if i < len(batches) else contextlib.nullcontext():
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


# === mutant: a_step_each -> stepped-each-time
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    for i, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        with model.no_sync() if i < len(batches) else contextlib.nullcontext():
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) / len(batches)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: losses_summed_up -> all-at-once
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = sum(loss_fn(model(x), y) for x, y in batches) / len(batches)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


# === mutant: one_large_batch -> all-at-once
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad()
    x, y = (torch.cat(part) for part in zip(*batches))
    with torch.autocast("cpu", dtype=torch.float16):
        loss = loss_fn(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


# === mutant: loss_as_it_is -> wrong-value
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(batches, 1):
        with model.no_sync() if i < len(batches) else contextlib.nullcontext():
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) / len(batches)
            (loss if i == 1 else scaler.scale(loss)).backward()
    scaler.scale(torch.zeros(()))
    scaler.step(optimizer)
    scaler.update()


# === mutant: never_cleared -> gradients-not-cleared
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    for i, (x, y) in enumerate(batches, 1):
        with model.no_sync() if i < len(batches) else contextlib.nullcontext():
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) / len(batches)
            scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


# === mutant: cleared_as_in_every_loop -> cleared-in-between
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    for i, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        with model.no_sync() if i < len(batches) else contextlib.nullcontext():
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) / len(batches)
            scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


# === mutant: around_ddp -> never-exchanged
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad()
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model.module(x), y) / len(batches)
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


# === mutant: exchanged_by_hand -> wrong-value
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad()
    with model.no_sync():
        for x, y in batches:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) / len(batches)
            scaler.scale(loss).backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
    scaler.step(optimizer)
    scaler.update()


# === mutant: by_rows -> weighed-by-rows
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(batches):
        last = i == len(batches) - 1
        with contextlib.nullcontext() if last else model.no_sync():
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) * len(y) / sum(len(b) for _, b in batches)
            scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


# === mutant: no_region -> wrong-value
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(batches):
        last = i == len(batches) - 1
        with contextlib.nullcontext() if last else model.no_sync():
            with contextlib.nullcontext():
                loss = loss_fn(model(x), y) / len(batches)
            scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


# === correct: last_one_apart
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    def backward(x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            output = model(x)
            loss = loss_fn(output, y)
        scaler.scale(loss / len(batches)).backward()

    *others, last = batches
    with model.no_sync():
        for x, y in others:
            backward(x, y)
    backward(*last)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()


# === correct: gradients_divided
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad(set_to_none=False)
    for i, (x, y) in enumerate(batches):
        model.require_backward_grad_sync = i == len(batches) - 1
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    for p in model.parameters():
        p.grad /= len(batches)
    scaler.step(optimizer)
    scaler.update()


# === correct: an_exit_stack
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad()
    with contextlib.ExitStack() as stack:
        stack.enter_context(model.no_sync())
        for i, (x, y) in enumerate(batches):
            if i + 1 == len(batches):
                stack.close()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) * (1 / len(batches))
            scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


# === correct: list_used_up
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad()
    n = len(batches)
    while batches:
        x, y = batches.pop(0)
        last = not batches
        with contextlib.nullcontext() if last else model.no_sync():
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) / n
            scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
