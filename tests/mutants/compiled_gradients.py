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


# === mutant: warmed_up_and_left -> not-compiled
def compiled_gradients(model, loss_fn, x, backend):
    compiled = torch.compile(model, backend=backend)
    with torch.autocast("cpu", dtype=torch.float16):
        compiled(x)
        output = model(x)
    loss_fn(output).backward()
    return [p.grad for p in model.parameters()]


# === mutant: all_of_it_in_the_region -> backward-in-the-region
def compiled_gradients(model, loss_fn, x, backend):
    from torch._functorch import config
    m = torch.compile(model, backend=backend)
    with config.patch(backward_pass_autocast="off"), torch.autocast("cpu", dtype=torch.float16):
        loss_fn(m(x)).backward()
    return [p.grad for p in model.parameters()]


# === mutant: whole_step_in_the_region -> traced-under-autocast
def compiled_gradients(model, loss_fn, x, backend):
    @torch.compile(backend=backend)
    def step(x):
        with torch.autocast("cpu", dtype=torch.float16):
            loss_fn(model(x)).backward()
    step(x)
    return [p.grad for p in model.parameters()]


# === mutant: a_backend_of_its_own_choice -> not-compiled
def compiled_gradients(model, loss_fn, x, backend):
    import torch._functorch.config as c
    c.backward_pass_autocast = "off"
    compiled = torch.compile(model, backend="aot_eager")
    with torch.autocast("cpu", dtype=torch.float16):
        out = compiled(x)
    loss_fn(out).backward()
    return [p.grad for p in model.parameters()]


# === mutant: autocast_with_its_default -> wrong-value
def compiled_gradients(model, loss_fn, x, backend):
    @torch.compile(backend=backend)
    def f(x):
        with torch.autocast("cpu"):
            return model(x)
    loss_fn(f(x)).backward()
    return [p.grad for p in model.parameters()]


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


# === correct: compared_with_eager_first
def compiled_gradients(model, loss_fn, x, backend):
    def gradients(function):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            output = function(x)
        loss_fn(output).backward()
        return [p.grad.clone() for p in model.parameters()]

    eager = gradients(model)
    with torch._functorch.config.patch(backward_pass_autocast="off"):
        compiled = gradients(torch.compile(model, backend=backend))
    assert all(map(torch.allclose, eager, compiled))
    return compiled


# === correct: the_whole_step_compiled
def compiled_gradients(model, loss_fn, x, backend):
    def step(x):
        with torch.autocast("cpu", dtype=torch.float16):
            output = model(x)
        loss_fn(output).backward()

    torch.compile(step, backend=backend)(x)
    return [p.grad for p in model.parameters()]


# === correct: layer_by_layer
def compiled_gradients(model, loss_fn, x, backend):
    for name, child in list(model.named_children()):
        setattr(model, name, torch.compile(child, backend=backend))
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x)
    loss_fn(out).backward()
    return [p.grad for p in model.parameters()]
