# %% statement points=2 minutes=10
# # Compiled equals eager
#
# Write `compiled_gradients(model, loss_fn, x, backend)`. It returns the gradients of a compiled
# model, and they must equal those of eager mode.
#
# - Compile the model with `backend=backend`. This backend needs no C++ compiler, and it counts the
#   backward passes of what it compiles.
# - Run the model on `x` under `torch.autocast("cpu", dtype=torch.float16)`.
# - The loss is `loss_fn(output)`. Call `backward()` outside of autocast.
# - Return the gradients of `model.parameters()` in a list.
#
# The model keeps its last layer in FP32, because the gradient of that layer doesn't fit in FP16.

# %% answer
def compiled_gradients(model, loss_fn, x, backend):
    """Forward compiled and under FP16 autocast, backward outside; the gradients, as a list."""

    ### BEGIN SOLUTION
    @torch.compile(backend=backend)
    def forward(x):
        with torch.autocast("cpu", dtype=torch.float16):
            return model(x)

    output = forward(x)
    loss_fn(output).backward()
    return [parameter.grad for parameter in model.parameters()]
    ### END SOLUTION

# %% hints
# - Compare with eager mode. Which layer's gradient differs, and in which dtype does it seem to be
#   computed?
# - The lesson shows two ways out: a setting that must hold when the model is first called, or
#   another place for the autocast region.
# - Put the region into a small function and compile that function. Or set
#   `backward_pass_autocast="off"` with `torch._functorch.config.patch(...)` around the call.

# %% probe
from amp_lessons.exercises.compile_and_checkpoint.harness import compile_cases, play_compiled

probe = Probe(compile_cases, play=play_compiled)

# %% judge
judge = Judge(same=within(1e-4), asked_for="a list of gradients", pairs=False)

# %% passed
# AOTAutograd traces the backward pass under the autocast that is on when the forward is compiled.
# You kept that trace out of autocast, so the compiled gradients equal those of eager mode.

# %% right patched_around_the_call
def compiled_gradients(model, loss_fn, x, backend):
    from torch._functorch import config

    compiled = torch.compile(model, backend=backend)
    with config.patch(backward_pass_autocast="off"), torch.autocast("cpu", dtype=torch.float16):
        output = compiled(x)
    loss_fn(output).backward()
    return [p.grad.clone() for p in model.parameters()]

# %% right set_once
def compiled_gradients(model, loss_fn, x, backend):
    torch._functorch.config.backward_pass_autocast = "off"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = loss_fn(torch.compile(model, backend=backend)(x))
    return torch.autograd.grad(loss, list(model.parameters()))

# %% rule not-compiled
# No backward pass went through what `backend` compiled. You ran the eager model, or you compiled
# with another backend. Pass `backend=backend` to `torch.compile`, and call what it returns.
def breaks(seen, right):
    return noted(seen, "compiled backward passes") == 0
swap("@torch.compile(backend=backend)", "")
of("patched_around_the_call", swap("compiled(x)", "model(x)"))

# %% rule gradients-in-16-bits
# You return gradients with 16 bits. They are float32: return them as they are, without a cast.
def breaks(seen, right):
    return noted(seen, "gradients in 16 bits")
swap("parameter.grad for", "parameter.grad.half() for")

# %% rule no-autocast
# Your forward pass ran in FP32. Run it under `torch.autocast("cpu", dtype=torch.float16)`.
def breaks(seen, right):
    return noted(seen, "the first layer's gradients are values that fit in") == "float32"
unwrap("with torch.autocast")
of("patched_around_the_call", swap(', torch.autocast("cpu", dtype=torch.float16)', ""))

# %% rule another-precision
# Your forward pass ran in BF16, which is autocast's default on a CPU. Pass `dtype=torch.float16`.
def breaks(seen, right):
    return noted(seen, "the first layer's gradients are values that fit in") == "bfloat16"
swap(", dtype=torch.float16", "")
of("patched_around_the_call", swap("torch.float16", "torch.bfloat16"))

# %% rule backward-in-the-region
# You called `backward()` under autocast. There, operations of the backward pass can be cast to FP16
# once more, and then the last layer's gradient is inf. Leave the region before you call it.
def breaks(seen, right):
    return noted(seen, "autocast when backward() was called") == "on"
wrap('with torch.autocast("cpu", dtype=torch.float16):', "loss_fn(output)")
of("patched_around_the_call", move("loss_fn(output)", after="output = "))

# %% rule traced-under-autocast
# The last layer's gradient is inf. Its backward pass was traced under the autocast of the forward
# pass, so it runs in FP16. Compile a function that contains the autocast region. Or set
# `torch._functorch.config.backward_pass_autocast` to "off" until the model has been called.
def breaks(seen, right):
    gradients = noted(seen, "gradients of the last layer")
    return isinstance(gradients, list) and math.inf in gradients
of("patched_around_the_call", swap('config.patch(backward_pass_autocast="off"), ', ""))
of("patched_around_the_call", wrap('with config.patch(backward_pass_autocast="off"):',
    "compiled = ") & swap('config.patch(backward_pass_autocast="off"), ', ""))

# %% rule gradients-added-up
# Your gradients are twice as large as they should be. You ran two backward passes, and the second
# added to the gradients of the first. Clear the gradients in between.
def breaks(seen, right):
    got, wanted = (noted(one, "gradients of the last layer") for one in (seen, right))
    return isinstance(got, list) and got == [2 * number for number in wanted]
put("loss_fn(output).backward(retain_graph=True)", before="loss_fn(output)")

# %% rule returned-none
def breaks(seen, right):
    return noted(seen, "returned") == "NoneType"
drop("return [")
