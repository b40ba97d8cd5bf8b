# === mutant: as_given -> optimizer-of-the-old-head
def mend_finetune(model, head, scaler, loss_fn, batches, rate):
    optimizer = torch.optim.SGD(model.head.parameters(), lr=rate)
    model.head = head
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: scaler_left_out_to_silence_it -> nothing-trains
def mend_finetune(model, head, scaler, loss_fn, batches, rate):
    optimizer = torch.optim.SGD(model.head.parameters(), lr=rate)
    model.head = head
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()


# === mutant: exception_caught -> nothing-trains
def mend_finetune(model, head, scaler, loss_fn, batches, rate):
    optimizer = torch.optim.SGD(model.head.parameters(), lr=rate)
    model.head = head
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        try:
            scaler.step(optimizer)
            scaler.update()
        except AssertionError:
            pass


# === mutant: everything_to_the_optimizer -> backbone-trained
def mend_finetune(model, head, scaler, loss_fn, batches, rate):
    model.head = head
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: whole_model_before_the_head -> backbone-trained
def mend_finetune(model, head, scaler, loss_fn, batches, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    model.head = head
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: right_optimizer_no_scaler -> scaler-bypassed
def mend_finetune(model, head, scaler, loss_fn, batches, rate):
    model.head = head
    optimizer = torch.optim.SGD(head.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()


# === mutant: all_in_float32 -> not-in-fp16
def mend_finetune(model, head, scaler, loss_fn, batches, rate):
    model.head = head
    optimizer = torch.optim.SGD(model.head.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: a_copy_of_the_head -> wrong-value
def mend_finetune(model, head, scaler, loss_fn, batches, rate):
    import copy
    model.head = copy.deepcopy(head)
    optimizer = torch.optim.SGD(model.head.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: group_added_later
def mend_finetune(model, head, scaler, loss_fn, batches, rate):
    optimizer = torch.optim.SGD(model.head.parameters(), lr=rate)
    model.head = head
    optimizer.add_param_group({"params": list(head.parameters())})
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: backbone_frozen_and_run_without_gradients
def mend_finetune(model, head, scaler, loss_fn, batches, rate):
    model.head = head
    model.backbone.requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=rate)
    for x, y in batches:
        with torch.autocast("cpu", torch.float16):
            with torch.no_grad():
                features = model.backbone(x)
            loss = loss_fn(model.head(features), y)
        optimizer.zero_grad(set_to_none=False)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()


# === correct: fused_optimizer
def mend_finetune(model, head, scaler, loss_fn, batches, rate):
    model.head = head
    optimizer = torch.optim.SGD(model.head.parameters(), lr=rate, fused=True)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: logits_cast_for_the_loss
def mend_finetune(model, head, scaler, loss_fn, batches, rate):
    model.head = head
    optimizer = torch.optim.SGD(model.head.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
        loss = loss_fn(logits.float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: backbone_frozen_and_all_parameters
def mend_finetune(model, head, scaler, loss_fn, batches, rate):
    for p in model.backbone.parameters():
        p.requires_grad = False
    setattr(model, "head", head)
    optimizer = torch.optim.SGD(model.parameters(), rate, foreach=True)

    def one(batch):
        x, y = batch
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    [one(b) for b in batches]


# === correct: no_rate_for_the_backbone
def mend_finetune(model, head, scaler, loss_fn, batches, rate):
    model.head = head
    optimizer = torch.optim.SGD([{'params': model.backbone.parameters(), 'lr': 0.0}, {'params': head.parameters()}], lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
