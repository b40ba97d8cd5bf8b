# === mutant: as_given -> fp16-gradients
def mend_adapter(base, adapter, scaler, loss_fn, batches, rate):
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(base(x) + adapter(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: without_the_scaler -> scaler-thrown-out
def mend_adapter(base, adapter, scaler, loss_fn, batches, rate):
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(base(x) + adapter(x), y)
        loss.backward()
        optimizer.step()


# === mutant: float_but_not_scaled -> scaler-bypassed
def mend_adapter(base, adapter, scaler, loss_fn, batches, rate):
    adapter.float()
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(base(x) + adapter(x), y)
        loss.backward()
        optimizer.step()


# === mutant: all_in_fp32 -> base-in-fp32
def mend_adapter(base, adapter, scaler, loss_fn, batches, rate):
    base, adapter = base.float(), adapter.float()
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(base(x) + adapter(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: inputs_cast_by_hand -> autocast-left-out
def mend_adapter(base, adapter, scaler, loss_fn, batches, rate):
    adapter.float()
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(base(x.half()) + adapter(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: refusal_taken_out -> scaler-thrown-out
def mend_adapter(base, adapter, scaler, loss_fn, batches, rate):
    old = scaler._unscale_grads_
    scaler._unscale_grads_ = lambda o, i, f, a: old(o, i, f, True)
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(base(x) + adapter(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === mutant: region_left_for_the_adapter -> autocast-left-out
def _fp32(adapter, x):
    with torch.autocast('cpu', enabled=False):
        return adapter(x)


def mend_adapter(base, adapter, scaler, loss_fn, batches, rate):
    adapter.float()
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(base(x) + _fp32(adapter, x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: after_the_optimizer
def mend_adapter(base, adapter, scaler, loss_fn, batches, rate):
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate)
    adapter.to(torch.float32)
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(torch.add(adapter(x), base(x)), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        adapter.zero_grad()


# === correct: parameter_by_parameter
def mend_adapter(base, adapter, scaler, loss_fn, batches, rate):
    for parameter in adapter.parameters():
        parameter.data = parameter.data.float()
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            with torch.no_grad():
                frozen = base(x)
            loss = loss_fn(frozen + adapter(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()


# === correct: master_weights_beside_it
def mend_adapter(base, adapter, scaler, loss_fn, batches, rate):
    params = list(adapter.parameters())
    masters = [p.detach().float().requires_grad_() for p in params]
    optimizer = torch.optim.SGD(masters, lr=rate)
    for x, y in batches:
        adapter.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(base(x) + adapter(x), y)
        scaler.scale(loss).backward()
        for m, p in zip(masters, params):
            m.grad = p.grad.float()
        scaler.step(optimizer)
        scaler.update()
        with torch.no_grad():
            for m, p in zip(masters, params):
                p.copy_(m)


# === correct: fused_optimizer
def mend_adapter(base, adapter, scaler, loss_fn, batches, rate):
    adapter.to(dtype=torch.float32)
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate, fused=True)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(base(x) + adapter(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: outputs_cast_and_added_outside
def mend_adapter(base, adapter, scaler, loss_fn, batches, rate):
    adapter = adapter.type(torch.float32)
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            frozen, small = base(x), adapter(x)
        loss = loss_fn(frozen.float() + small.float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


# === correct: half_again_at_the_end
def mend_adapter(base, adapter, scaler, loss_fn, batches, rate):
    adapter.float()
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(base(x) + adapter(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    adapter.half()


# === correct: functional_call_with_wide_copies
def mend_adapter(base, adapter, scaler, loss_fn, batches, rate):
    masters = {n: p.detach().float().requires_grad_() for n, p in adapter.named_parameters()}
    optimizer = torch.optim.SGD(masters.values(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            small = torch.func.functional_call(adapter, masters, (x,))
            loss = loss_fn(base(x) + small, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    with torch.no_grad():
        for n, p in adapter.named_parameters():
            p.data = masters[n].detach()
