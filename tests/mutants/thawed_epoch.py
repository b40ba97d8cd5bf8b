# === mutant: as_it_was -> stale-cache
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for x, y in batches:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


# === mutant: decorated_epoch -> stale-cache
@torch.autocast("cpu", dtype=torch.bfloat16)
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    for x, y in batches:
        loss = loss_fn(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


# === mutant: nested_region_in_each_step -> stale-cache
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_fn(model(x), y)
            with torch.autocast("cpu", enabled=False):
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
    return losses


# === mutant: larger_learning_rate -> stale-cache
def thawed_epoch(model, loss_fn, optimizer, batches):
    for group in optimizer.param_groups:
        group["lr"] *= 10
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for x, y in batches:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


# === mutant: cache_cleared_in_one_region -> backward-inside
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for x, y in batches:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            torch.clear_autocast_cache()
            losses.append(loss.item())
    return losses


# === mutant: no_cache_in_one_region -> backward-inside
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        for x, y in batches:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


# === mutant: loss_left_outside -> loss-outside
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            prediction = model(x)
        loss = loss_fn(prediction, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# === mutant: step_left_inside -> step-inside
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = loss_fn(model(x), y)
            with torch.autocast("cpu", enabled=False):
                loss.backward()
            optimizer.step()
        losses.append(loss.item())
    return losses


# === mutant: float16_without_a_scaler -> other-dtype
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.half):
            loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# === mutant: disabled_region_around_the_loop -> stale-cache
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    with torch.autocast("cpu", enabled=False):
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


# === mutant: region_taken_away -> no-autocast
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# === mutant: model_cast_instead -> parameters-cast
def thawed_epoch(model, loss_fn, optimizer, batches):
    model.bfloat16()
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x.bfloat16()), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# === mutant: step_forgotten -> nothing-learned
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        loss.backward()
        losses.append(loss.item())
    return losses


# === mutant: zeroed_once_an_epoch -> gradients-pile-up
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    optimizer.zero_grad()
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# === mutant: only_the_last_loss -> wrong-value
def thawed_epoch(model, loss_fn, optimizer, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


# === correct: decorated_forward
def thawed_epoch(model, loss_fn, optimizer, batches):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward(x, y):
        return loss_fn(model(x), y)

    losses = []
    for x, y in batches:
        loss = forward(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


# === correct: one_region_object_entered_each_time
def thawed_epoch(model, loss_fn, optimizer, batches):
    region = torch.autocast("cpu", dtype=torch.bfloat16)

    def step(x, y):
        optimizer.zero_grad()
        with region:
            prediction = model(x)
            loss = loss_fn(prediction, y)
        loss.backward()
        optimizer.step()
        return float(loss)

    return [step(x, y) for x, y in batches]


# === correct: losses_in_one_tensor
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = torch.zeros(len(batches))
    for i, (x, y) in enumerate(batches):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses[i] = loss.detach()
    return losses


# === mutant: backward_of_the_sum_at_the_end -> steps-miscounted
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    optimizer.zero_grad()
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            losses.append(loss_fn(model(x), y))
    sum(losses).backward()
    optimizer.step()
    return [l.item() for l in losses]


# === mutant: first_batch_skipped -> steps-miscounted
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    for x, y in batches[1:]:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# === mutant: entered_and_left_open -> region-left-open
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    torch.set_autocast_enabled("cpu", True)
    return losses


# === mutant: no_autocast_when_training -> forward-outside-too
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            losses.append(loss_fn(model(x), y).item())
        loss_fn(model(x), y).backward()
        optimizer.step()
    return losses


# === mutant: generator -> wrong-type
def thawed_epoch(model, loss_fn, optimizer, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        yield loss.item()


# === mutant: switched_by_hand -> stale-cache
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        torch.set_autocast_enabled("cpu", True)
        loss = loss_fn(model(x), y)
        torch.set_autocast_enabled("cpu", False)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# === correct: cache_cleared_and_disabled
def thawed_epoch(model, loss_fn, optimizer, batches):
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for x, y in batches:
            loss = loss_fn(model(x), y)
            with torch.autocast("cpu", enabled=False):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                torch.clear_autocast_cache()
            losses.append(loss.item())
    return losses
