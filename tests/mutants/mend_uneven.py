# === mutant: as_given -> mean-of-means
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        optimizer.zero_grad()
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) / len(group)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: not_divided -> loss-not-divided
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        optimizer.zero_grad()
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: rows_summed -> rows-not-divided
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        optimizer.zero_grad()
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) * len(y)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: step_in_the_inner_loop -> stepped-each-micro-batch
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        optimizer.zero_grad()
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) / len(group)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


# === mutant: group_put_together -> one-big-batch
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        optimizer.zero_grad()
        x = torch.cat([x for x, _ in group])
        y = torch.cat([y for _, y in group])
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: gradients_divided_at_the_end
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        optimizer.zero_grad()
        rows = 0
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss * x.shape[0]).backward()
            rows += x.shape[0]
        scaler.unscale_(optimizer)
        for parameter in model.parameters():
            parameter.grad.div_(rows)
        scaler.step(optimizer)
        scaler.update()


# === correct: scaled_loss_weighed
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        counts = [y.numel() for _, y in group]
        for (x, y), count in zip(group, counts, strict=True):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            (scaler.scale(loss) * count / sum(counts)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
