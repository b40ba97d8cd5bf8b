# === mutant: as_given -> overflow-before-the-division
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scores = (encoder(x) @ encoder(z).T) / temperature
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: cast_after_the_product -> overflow-before-the-division
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scores = (encoder(x) @ encoder(z).T).float() / temperature
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: cast_under_autocast -> overflow-before-the-division
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scores = (encoder(x).float() @ encoder(z).float().T) / temperature
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: clamped -> scores-clamped
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scores = (encoder(x) @ encoder(z).T).clamp(-65504, 65504) / temperature
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: scaler_blamed -> scaler-bypassed
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scores = (encoder(x) @ encoder(z).T) / temperature
            loss = cross_entropy(scores, torch.arange(len(x)))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# === mutant: bfloat16_instead -> bfloat16-region
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores = (encoder(x) @ encoder(z).T) / temperature
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: no_autocast -> autocast-left-out
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        scores = (encoder(x) @ encoder(z).T) / temperature
        loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: bfloat16_for_the_scores -> bfloat16-region
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            a, b = encoder(x), encoder(z)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                scores = (a @ b.T) / temperature
                loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: embeddings_cast_to_bfloat16 -> bfloat16-region
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            a, b = encoder(x), encoder(z)
            with torch.autocast("cpu", enabled=False):
                scores = (a.bfloat16() @ b.bfloat16().T) / temperature
            loss = cross_entropy(scores.float(), torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: encoder_alone_in_float32 -> autocast-left-out
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            with torch.autocast("cpu", enabled=False):
                a, b = encoder(x), encoder(z)
            scores = (a / temperature) @ b.T
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === mutant: second_one_detached -> wrong-value
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scores = (encoder(x) / temperature) @ encoder(z).detach().T
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === correct: product_in_float32
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            a, b = encoder(x), encoder(z)
            with torch.autocast("cpu", enabled=False):
                scores = (a.float() @ b.float().T) / temperature
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === correct: roots_of_the_temperature
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            root = temperature**0.5
            scores = (encoder(x) / root) @ (encoder(z) / root).T
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === correct: product_after_the_region
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            both = encoder(torch.cat([x, z]))
        a, b = both.float().chunk(2)
        scores = torch.einsum("ik,jk->ij", a, b) / temperature
        loss = cross_entropy(scores, torch.arange(len(x)))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    return losses


# === correct: second_one_divided
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scores = encoder(x) @ (encoder(z) / temperature).T
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === correct: product_in_float64
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scores = encoder(x).double() @ encoder(z).double().T / temperature
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === correct: lengths_taken_out
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            a, b = encoder(x), encoder(z)
            na, nb = a.float().norm(dim=1, keepdim=True), b.float().norm(dim=1, keepdim=True)
            scores = ((a / na) @ (b / nb).T) * (na * nb.T / temperature)
            loss = cross_entropy(scores, torch.arange(len(x)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


# === correct: loss_by_hand
def mend_similarity(encoder, optimizer, scaler, batches, temperature):
    losses = []
    for x, z in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scores = (encoder(x) / temperature) @ encoder(z).T
            loss = -log_softmax(scores.float(), dim=1).diagonal().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses
