# === mutant: as_given -> eps-vanishes
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            p = softmax(logits, dim=1)
            entropy = -(p * (p + 1e-8).log()).sum(dim=1).mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: cast_after_the_logarithm -> eps-vanishes
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            p = softmax(logits, dim=1)
            entropy = -(p * (p + 1e-8).log()).float().sum(dim=1).mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: nan_to_num -> nan-only-hidden
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            p = softmax(logits, dim=1)
            entropy = -torch.nan_to_num(p * torch.log(p + 1e-8)).sum(dim=1).mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: detached -> entropy-dropped
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            log_p = log_softmax(logits.detach().float(), dim=1)
            entropy = -(log_p.exp() * log_p).sum(dim=1).mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: minus_forgotten -> sign-of-the-entropy
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            log_p = log_softmax(logits.float(), dim=1)
            entropy = (log_p.exp() * log_p).sum(dim=1).mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: all_in_float32 -> autocast-left-out
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        logits = model(x)
        p = softmax(logits, dim=1)
        entropy = -(p * (p + 1e-8).log()).sum(dim=1).mean()
        loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: softmax_in_float32_and_no_eps -> zero-in-fp32
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            p = softmax(logits, dim=1, dtype=torch.float32)
            entropy = -(p * p.log()).sum(dim=1).mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: cast_after_the_softmax -> eps-vanishes
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            p = softmax(logits, dim=1).float()
            entropy = -(p * p.log()).sum(dim=1).mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === correct: probabilities_in_float32
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            p = softmax(logits.float(), dim=1)
            entropy = -(p * (p + 1e-8).log()).sum(dim=1).mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === correct: a_distribution
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            entropy = torch.distributions.Categorical(logits=logits.float()).entropy().mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === correct: log_softmax_in_half
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            log_p = log_softmax(logits, dim=1)
            entropy = -(softmax(logits, dim=1) * log_p).sum(dim=1).mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === correct: outside_the_region
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
        wide = logits.float()
        entropy = (torch.logsumexp(wide, 1) - (softmax(wide, 1) * wide).sum(1)).mean()
        loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss)
    return losses


# === correct: logits_cast_and_loss_outside
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
        logits = logits.to(torch.float32)
        lp = log_softmax(logits, dim=1)
        entropy = -(lp.exp() * lp).sum(dim=1).mean()
        loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === correct: cross_entropy_with_itself
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            wide = logits.float()
            entropy = cross_entropy(wide, wide.softmax(1))
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === correct: losses_in_a_tensor
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            lp = log_softmax(logits.float(), 1)
            entropy = -(lp.exp() * lp).sum(1).mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses = torch.tensor([*losses, loss.item()])
    return losses


# === correct: distance_from_uniform
def mend_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            log_p = torch.nn.functional.log_softmax(logits, 1, dtype=torch.float32)
            k = logits.shape[1]
            u = torch.full_like(log_p, -math.log(k))
            kl = torch.nn.functional.kl_div(u, log_p, reduction='batchmean', log_target=True)
            entropy = math.log(k) - kl
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses
