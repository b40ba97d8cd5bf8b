# === mutant: as_given -> evaluated-in-train-mode
def mend_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    for batches in epochs:
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        images, labels = validation
        losses.append(loss_fn(model(images), labels).item())
    return losses


# === mutant: no_grad_is_thought_to_be_enough -> evaluated-in-train-mode
def mend_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    for batches in epochs:
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        images, labels = validation
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            losses.append(loss_fn(model(images), labels).item())
    return losses


# === mutant: never_back -> left-in-eval-mode
def mend_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    for batches in epochs:
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        images, labels = validation
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            losses.append(loss_fn(model(images), labels).item())
    return losses


# === mutant: float32_to_be_exact -> evaluated-in-another-precision
def mend_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    for batches in epochs:
        model.train()
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        images, labels = validation
        model.eval()
        with torch.no_grad():
            losses.append(loss_fn(model(images), labels).item())
    return losses


# === mutant: autocast_with_its_default -> evaluated-in-another-precision
def mend_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    for batches in epochs:
        model.train()
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        images, labels = validation
        model.eval()
        with torch.no_grad(), torch.autocast("cpu"):
            losses.append(loss_fn(model(images), labels).item())
    return losses


# === mutant: eval_is_thought_to_be_enough -> recorded-for-backward
def mend_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    for batches in epochs:
        model.train()
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        images, labels = validation
        model.eval()
        with torch.autocast("cpu", dtype=torch.float16):
            losses.append(loss_fn(model(images), labels).item())
    return losses


# === correct: inference_mode_and_back
def mend_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    for batches in epochs:
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        images, labels = validation
        model.eval()
        with torch.inference_mode():
            with torch.autocast("cpu", dtype=torch.float16):
                losses.append(float(loss_fn(model(images), labels)))
        model.train()
    return losses


# === mutant: eval_before_everything -> left-in-eval-mode
def mend_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    model.eval()
    for batches in epochs:
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        images, labels = validation
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            losses.append(loss_fn(model(images), labels).item())
    return losses

# === mutant: two_of_four_switches -> evaluated-in-another-precision
def mend_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    for batches in epochs:
        model.train()
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        model.eval()
        images, labels = validation
        losses.append(loss_fn(model(images), labels).item())
    return losses

# === mutant: eval_alone -> left-in-eval-mode
def mend_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    for batches in epochs:
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        model.eval()
        images, labels = validation
        losses.append(loss_fn(model(images), labels).item())
    return losses

# === correct: on_a_copy
import copy


def mend_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    for batches in epochs:
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x).float(), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        still = copy.deepcopy(model).eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            losses.append(loss_fn(still(validation[0]), validation[1]))
    return torch.stack(losses)


# === mutant: detach_only -> recorded-for-backward
def mend_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    images, labels = validation
    pass
    for batches in epochs:
        model.train()
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        model.eval()
        with torch.autocast("cpu", dtype=torch.float16):
            losses.append(loss_fn(model(images).detach(), labels).item())
    return losses


# === mutant: half_model -> wrong-value
def mend_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    images, labels = validation
    pass
    for batches in epochs:
        model.train()
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        model.eval()
        with torch.no_grad():
            losses.append(loss_fn(model.half()(images.half()), labels).item())
        model.float()
    return losses
