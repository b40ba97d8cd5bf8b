# === mutant: everything_in_the_region -> backward-inside
def autocast_step(model, loss_fn, optimizer, x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


# === mutant: only_the_step_outside -> backward-inside
def autocast_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(x), y)
        loss.backward()
    optimizer.step()
    return loss.detach()


# === mutant: loss_after_the_region -> loss-outside
def autocast_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        prediction = model(x)
    loss = loss_fn(prediction, y)
    loss.backward()
    optimizer.step()
    return loss.item()


# === mutant: loss_after_the_region_widened -> loss-outside
def autocast_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        prediction = model(x)
    loss = loss_fn(prediction.float(), y)
    loss.backward()
    optimizer.step()
    return loss.item()


# === mutant: step_in_its_own_region -> step-inside
def autocast_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(x), y)
    loss.backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        optimizer.step()
    return loss.item()


# === mutant: float16_without_a_scaler -> other-dtype
def autocast_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


# === mutant: no_region -> no-autocast
def autocast_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


# === mutant: disabled_region -> no-autocast
def autocast_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    with torch.autocast("cpu", enabled=torch.cuda.is_available() and False):
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


# === mutant: model_cast -> parameters-cast
def autocast_step(model, loss_fn, optimizer, x, y):
    model.to(torch.bfloat16)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(x.bfloat16()), y)
    loss.backward()
    optimizer.step()
    return loss.item()


# === mutant: no_backward -> nothing-learned
def autocast_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(x), y)
    optimizer.step()
    return loss.item()


# === mutant: zero_grad_after_backward -> nothing-learned
def autocast_step(model, loss_fn, optimizer, x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()


# === mutant: no_zero_grad -> gradients-of-before
def autocast_step(model, loss_fn, optimizer, x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


# === mutant: nothing_returned -> returned-none
def autocast_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()


# === mutant: returns_the_loss_after_the_step -> wrong-value
def autocast_step(model, loss_fn, optimizer, x, y):
    def forward():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss_fn(model(x), y)

    optimizer.zero_grad()
    forward().backward()
    optimizer.step()
    return forward().item()


# === mutant: target_and_prediction_swapped -> wrong-value
def autocast_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(y, model(x))
    loss.backward()
    optimizer.step()
    return loss.item()



# === correct: decorated_forward
def autocast_step(model, loss_fn, optimizer, x, y):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward():
        return loss_fn(model(x), y)

    loss = forward()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


# === correct: two_regions_and_a_disabled_scaler
def autocast_step(model, loss_fn, optimizer, x, y):
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        prediction = model(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(prediction, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return float(loss)


# === correct: a_closure
def autocast_step(model, loss_fn, optimizer, x, y):
    def closure():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        loss.backward()
        return loss

    return optimizer.step(closure)


# === correct: prediction_widened_in_the_region
def autocast_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(x).float(), y)
    loss.backward()
    optimizer.step()
    return loss.item()


# === mutant: zero_at_the_end_only -> gradients-of-before
def autocast_step(model, loss_fn, optimizer, x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


# === mutant: two_forwards -> forward-outside-too
def autocast_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        before = loss_fn(model(x), y).item()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return before


# === mutant: cached_by_hand_no_exit -> stale-cache
def autocast_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    torch.set_autocast_enabled("cpu", True)
    loss = loss_fn(model(x), y)
    torch.set_autocast_enabled("cpu", False)
    loss.backward()
    optimizer.step()
    return loss.item()


# === mutant: steps_twice -> steps-miscounted
def autocast_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.step()
    return loss.item()


# === mutant: left_on_with_a_fresh_cache -> region-left-open
def autocast_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    torch.set_autocast_enabled("cpu", True)
    loss = loss_fn(model(x), y)
    torch.set_autocast_enabled("cpu", False)
    torch.clear_autocast_cache()
    loss.backward()
    optimizer.step()
    torch.set_autocast_enabled("cpu", True)
    return loss.item()


# === correct: real_scaler
def autocast_step(model, loss_fn, optimizer, x, y):
    scaler = torch.amp.GradScaler("cpu")
    optimizer.zero_grad(set_to_none=False)
    with torch.amp.autocast("cpu", torch.bfloat16):
        loss = loss_fn(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss


# === correct: grads_by_hand
def autocast_step(model, loss_fn, optimizer, x, y):
    params = [p for group in optimizer.param_groups for p in group["params"]]
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(x), y)
    for p, g in zip(params, torch.autograd.grad(loss, params)):
        p.grad = g
    optimizer.step()
    return loss.item()
