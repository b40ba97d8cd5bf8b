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


# === mutant: losses_summed_and_one_backward -> one-big-batch
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        optimizer.zero_grad()
        n = sum(len(y) for _, y in group)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = sum(loss_fn(model(x), y) * len(y) for x, y in group) / n
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: scaler_left_out -> scaler-bypassed
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        optimizer.zero_grad()
        n = sum(len(y) for _, y in group)
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) * len(y) / n
            loss.backward()
        optimizer.step()


# === mutant: all_in_float32 -> not-in-fp16
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        optimizer.zero_grad()
        rows = sum(len(y) for _, y in group)
        for x, y in group:
            loss = loss_fn(model(x), y) * (len(y) / rows)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: backward_passes_at_the_end -> one-big-batch
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        optimizer.zero_grad()
        losses, rows = [], 0
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                losses.append(loss_fn(model(x), y) * len(y))
            rows += len(y)
        for loss in losses:
            scaler.scale(loss / rows).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: divided_after_the_step -> rows-not-divided
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        optimizer.zero_grad()
        rows = sum(len(y) for _, y in group)
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) * len(y)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        for p in model.parameters():
            p.grad /= rows
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


# === correct: logits_cast_for_the_loss
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    def rows_of(group):
        return sum(x.size(0) for x, _ in group)

    for group in groups:
        n = rows_of(group)
        optimizer.zero_grad()
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                out = model(x)
            loss = loss_fn(out.float(), y)
            scaler.scale(loss.mul(x.size(0)).div(n)).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: rate_divided_by_the_rows
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    rate = optimizer.param_groups[0]["lr"]
    for group in groups:
        optimizer.zero_grad()
        n = sum(len(x) for x, _ in group)
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) * len(y)
            scaler.scale(loss).backward()
        optimizer.param_groups[0]["lr"] = rate / n
        scaler.step(optimizer)
        scaler.update()
    optimizer.param_groups[0]["lr"] = rate


# === correct: gradients_kept_apart
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    params = list(model.parameters())
    for group in groups:
        total = [torch.zeros_like(p) for p in params]
        n = sum(len(y) for _, y in group)
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            for t, g in zip(total, torch.autograd.grad(scaler.scale(loss), params)):
                t += g * (len(y) / n)
        for p, t in zip(params, total):
            p.grad = t
        scaler.step(optimizer)
        scaler.update()


# === correct: weighed_by_a_hook
def mend_uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        optimizer.zero_grad()
        rows = sum(len(y) for _, y in group)
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) 
            loss.register_hook(lambda g, k=len(y) / rows: g * k)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
