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


# === mutant: no_zero_grad -> gradients-pile-up
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
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
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
