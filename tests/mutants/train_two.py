# === mutant: update_after_each_step -> updated-twice
def train_two(models, optimizers, scaler, loss_fn, batches):
    first, second = models
    for x, z, y in batches:
        for optimizer in optimizers:
            optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = first(x)
            loss_1 = loss_fn(guess, y)
            loss_2 = loss_fn(guess.detach() + second(z), y)
        scaler.scale(loss_1).backward()
        scaler.scale(loss_2).backward()

        for optimizer in optimizers:
            scaler.step(optimizer)
            scaler.update()


# === mutant: a_scaler_each -> two-scalers
def train_two(models, optimizers, scaler, loss_fn, batches):
    first, second = models
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    for x, z, y in batches:
        for optimizer in optimizers:
            optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = first(x)
            loss_1 = loss_fn(guess, y)
            loss_2 = loss_fn(guess.detach() + second(z), y)
        scaler.scale(loss_1).backward()
        scaler.step(optimizers[0])
        scaler.update()
        other.scale(loss_2).backward()
        other.step(optimizers[1])
        other.update()


# === mutant: one_inf_skips_all -> all-or-none
def train_two(models, optimizers, scaler, loss_fn, batches):
    first, second = models
    for x, z, y in batches:
        for optimizer in optimizers:
            optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = first(x)
            loss_1 = loss_fn(guess, y)
            loss_2 = loss_fn(guess.detach() + second(z), y)
        scaler.scale(loss_1).backward()
        scaler.scale(loss_2).backward()

        finite = True
        for optimizer in optimizers:
            scaler.unscale_(optimizer)
        for model in models:
            for p in model.parameters():
                finite = finite and bool(p.grad.isfinite().all())
        if finite:
            for optimizer in optimizers:
                scaler.step(optimizer)
        scaler.update()


# === mutant: one_loss_is_scaled -> second-loss-not-scaled
def train_two(models, optimizers, scaler, loss_fn, batches):
    first, second = models
    for x, z, y in batches:
        for optimizer in optimizers:
            optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = first(x)
            loss_1 = loss_fn(guess, y)
            loss_2 = loss_fn(guess.detach() + second(z), y)
        scaler.scale(loss_1).backward()
        loss_2.backward()
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()


# === mutant: one_optimizer_steps_itself -> second-step-past-the-scaler
def train_two(models, optimizers, scaler, loss_fn, batches):
    first, second = models
    for x, z, y in batches:
        for optimizer in optimizers:
            optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = first(x)
            loss_1 = loss_fn(guess, y)
            loss_2 = loss_fn(guess.detach() + second(z), y)
        scaler.scale(loss_1).backward()
        scaler.scale(loss_2).backward()

        scaler.step(optimizers[0])
        optimizers[1].step()
        scaler.update()


# === correct: sum_of_the_losses
def train_two(models, optimizers, scaler, loss_fn, batches):
    first, second = models
    for x, z, y in batches:
        for optimizer in optimizers:
            optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = first(x)
            loss_1 = loss_fn(guess, y)
            loss_2 = loss_fn(guess.detach() + second(z), y)
        scaler.scale(loss_1 + loss_2).backward()
        for optimizer in optimizers:
            scaler.unscale_(optimizer)
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()


# === correct: list_of_losses
def train_two(models, optimizers, scaler, loss_fn, batches):
    for x, z, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            one = models[0](x)
            with torch.no_grad():
                fixed = one.clone()
            losses = [loss_fn(one, y), loss_fn(fixed + models[1](z), y)]
        torch.autograd.backward(scaler.scale(losses))
        for optimizer in reversed(optimizers):
            scaler.step(optimizer)
            optimizer.zero_grad()
        scaler.update()


# === mutant: guess_with_its_graph -> guess-not-detached
def train_two(models, optimizers, scaler, loss_fn, batches):
    for x, z, y in batches:
        for optimizer in optimizers:
            optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = models[0](x)
            total = loss_fn(guess, y) + loss_fn(guess + models[1](z), y)
        scaler.scale(total).backward()
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()

# === mutant: first_zeroed_only -> second-never-zeroed
def train_two(models, optimizers, scaler, loss_fn, batches):
    (first, second), (one, two) = models, optimizers
    for x, z, y in batches:
        one.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = first(x)
            losses = [loss_fn(guess, y), loss_fn(guess.detach() + second(z), y)]
        for loss in scaler.scale(losses):
            loss.backward()
        scaler.step(one)
        scaler.step(two)
        scaler.update()

# === mutant: one_model_after_the_other -> updated-twice
def train_two(models, optimizers, scaler, loss_fn, batches):
    (first, second), (one, two) = models, optimizers
    for x, z, y in batches:
        one.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = first(x)
            loss = loss_fn(guess, y)
        scaler.scale(loss).backward()
        scaler.step(one)
        scaler.update()
        two.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(guess.detach() + second(z), y)
        scaler.scale(loss).backward()
        scaler.step(two)
        scaler.update()

# === correct: first_steps_before_the_second_looks
def train_two(models, optimizers, scaler, loss_fn, batches):
    (first, second), (one, two) = models, optimizers
    for x, z, y in batches:
        one.zero_grad()
        two.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = first(x)
            loss = loss_fn(guess.float(), y)
        scaler.scale(loss).backward()
        scaler.step(one)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(guess.detach() + second(z), y)
        scaler.scale(loss).backward()
        scaler.unscale_(two)
        scaler.step(two)
        scaler.update()


# === mutant: unscale_one_then_all_or_none_second -> wrong-value
def train_two(models, optimizers, scaler, loss_fn, batches):
    first, second = models
    one, two = optimizers
    for x, z, y in batches:
        one.zero_grad(); two.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = first(x)
            a = loss_fn(guess, y)
            b = loss_fn(guess.detach() + second(z), y)
        scaler.scale(a).backward(); scaler.scale(b).backward()
        scaler.unscale_(one)
        if all(p.grad.isfinite().all() for p in first.parameters()):
            scaler.step(one); scaler.step(two)
        scaler.update()


# === correct: recomputed_guess
def train_two(models, optimizers, scaler, loss_fn, batches):
    first, second = models
    one, two = optimizers
    for x, z, y in batches:
        one.zero_grad(); two.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            a = loss_fn(first(x), y)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            guess = first(x)
        with torch.autocast("cpu", dtype=torch.float16):
            b = loss_fn(guess + second(z), y)
        scaler.scale(a).backward(); scaler.scale(b).backward()
        scaler.step(one); scaler.step(two); scaler.update()
