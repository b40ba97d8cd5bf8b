# === mutant: as_given -> closure-behind-the-scaler
def mend_closure(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:

        def closure(x=x, y=y):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            loss.backward()
            return loss

        scaler.scale(closure())
        scaler.step(optimizer, closure)
        scaler.update()


# === mutant: by_name -> closure-by-name
def mend_closure(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:

        def closure(x=x, y=y):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            loss.backward()
            return loss

        scaler.scale(closure())
        scaler.step(optimizer, closure=closure)
        scaler.update()


# === mutant: scaled_inside -> closure-not-unscaled
def mend_closure(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:

        def closure(x=x, y=y):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            return loss

        scaler.scale(closure())
        scaler.step(optimizer, closure)
        scaler.update()


# === mutant: optimizer_called_directly -> scaler-bypassed
def mend_closure(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:

        def closure(x=x, y=y):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)


# === mutant: closure_called_before_the_step -> divided-and-not-scaled
def mend_closure(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:

        def closure(x=x, y=y):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            loss.backward()
            return loss

        scaler.scale(closure())
        scaler.step(optimizer)
        scaler.update()


# === mutant: scaled_once_and_closure_again -> closure-behind-the-scaler
def mend_closure(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:

        def closure():
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            loss.backward()
            return loss

        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer, closure)
        scaler.update()


# === mutant: bfloat16_instead -> not-in-fp16
def mend_closure(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: scaled_closure_called_before_the_step
def mend_closure(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:

        def closure(x=x, y=y):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            return loss

        closure()
        scaler.step(optimizer)
        scaler.update()


# === correct: plain_loop_zeroed_last
def mend_closure(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            scaled = scaler.scale(loss_fn(model(x), y))
        scaled.backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


# === correct: closure_that_does_nothing
def mend_closure(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer, lambda: loss)
        scaler.update()


# === correct: helper_and_logits_cast
def mend_closure(model, optimizer, scaler, loss_fn, batches):
    def forward(x, y):
        with torch.autocast(device_type="cpu", dtype=torch.float16):
            return loss_fn(model(x).float(), y)

    for x, y in batches:
        scaler.scale(forward(x, y)).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1e9)
        scaler.step(optimizer)
        scaler.update()
        model.zero_grad()
