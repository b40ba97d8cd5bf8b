# === mutant: as_in_the_tutorials -> traced-under-autocast
def compiled_gradients(model, loss_fn, x, backend):
    compiled = torch.compile(model, backend=backend)
    with torch.autocast("cpu", dtype=torch.float16):
        output = compiled(x)
        loss = loss_fn(output)
    loss.backward()
    return [p.grad for p in model.parameters()]


# === mutant: set_where_compile_stands -> traced-under-autocast
def compiled_gradients(model, loss_fn, x, backend):
    from torch._functorch import config

    with config.patch(backward_pass_autocast="off"):
        compiled = torch.compile(model, backend=backend)
    with torch.autocast("cpu", dtype=torch.float16):
        output = compiled(x)
    loss_fn(output).backward()
    return [p.grad for p in model.parameters()]


# === mutant: eager_is_right_anyway -> not-compiled
def compiled_gradients(model, loss_fn, x, backend):
    with torch.autocast("cpu", dtype=torch.float16):
        output = model(x)
    loss_fn(output).backward()
    return [p.grad for p in model.parameters()]


# === mutant: compiled_and_not_called -> not-compiled
def compiled_gradients(model, loss_fn, x, backend):
    torch.compile(model, backend=backend)
    with torch.autocast("cpu", dtype=torch.float16):
        output = model(x)
    loss_fn(output).backward()
    return [p.grad for p in model.parameters()]


# === mutant: autocast_left_out -> no-autocast
def compiled_gradients(model, loss_fn, x, backend):
    loss_fn(torch.compile(model, backend=backend)(x)).backward()
    return [p.grad for p in model.parameters()]


# === mutant: returns_nothing -> wrong-value
def compiled_gradients(model, loss_fn, x, backend):
    torch._functorch.config.backward_pass_autocast = "off"
    with torch.autocast("cpu", dtype=torch.float16):
        output = torch.compile(model, backend=backend)(x)
    loss_fn(output).backward()


# === correct: set_once_for_all
def compiled_gradients(model, loss_fn, x, backend):
    import torch._functorch.config

    torch._functorch.config.backward_pass_autocast = "off"
    model = torch.compile(model, backend=backend)
    with torch.autocast("cpu", torch.float16):
        output = model(x)
    return torch.autograd.grad(loss_fn(output), list(model.parameters()))


# === correct: patched_around_the_call
def compiled_gradients(model, loss_fn, x, backend):
    from torch._functorch import config

    compiled = torch.compile(model, backend=backend)
    with config.patch(backward_pass_autocast="off"), torch.autocast("cpu", dtype=torch.float16):
        output = compiled(x)
    loss_fn(output).backward()
    return [p.grad.clone() for p in model.parameters()]


# === correct: forward_decorated
def compiled_gradients(model, loss_fn, x, backend):
    class Autocasting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.float16):
                return self.inner(x)

    compiled = torch.compile(Autocasting(), backend=backend)
    loss_fn(compiled(x)).backward()
    return [p.grad for p in compiled.parameters()]
