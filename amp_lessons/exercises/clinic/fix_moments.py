# %% statement points=3 minutes=20
# # Case 7: an Adam in two bytes
#
# This is Adam, written by hand. Its two averages are FP16, which halves their memory. The forward
# pass runs in BF16, so there is no scaler. After one step the loss is NaN.

# %% demo
def half_adam(model, loss_fn, batches, rate):
    parameters = list(model.parameters())
    means = [torch.zeros_like(p, dtype=torch.float16) for p in parameters]
    squares = [torch.zeros_like(p, dtype=torch.float16) for p in parameters]
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
            g = g.half()
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).add_(g * g, alpha=0.001)
            m_hat, v_hat = m / (1 - 0.9**number), v / (1 - 0.999**number)
            p.data -= rate * m_hat / (v_hat.sqrt() + 1e-8)


model = network()
half_adam(model, lambda a, b: cross_entropy(a, b) * 1e-3, some_batches(2), rate=0.05)
print("share of the weights that are finite:", model[0].weight.isfinite().float().mean().item())

# %% text
# Fix it. Call your version `fix_moments` and keep the arguments. The result has to be that of Adam
# in FP32: betas of 0.9 and 0.999, both averages with bias correction, an eps of 1e-8 added to the
# root, and no weight decay. Autocast stays in BF16, the parameters in FP32. `torch.optim` is fine.

# %% answer
def fix_moments(model, loss_fn, batches, rate):
    """Train on each batch once with Adam, the forward pass under BF16 autocast."""
    ### BEGIN SOLUTION
    parameters = list(model.parameters())
    means = [torch.zeros_like(p) for p in parameters]
    squares = [torch.zeros_like(p) for p in parameters]
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).add_(g * g, alpha=0.001)
            m_hat, v_hat = m / (1 - 0.9**number), v / (1 - 0.999**number)
            p.data -= rate * m_hat / (v_hat.sqrt() + 1e-8)
    ### END SOLUTION

# %% hints
# - Compute `1e-4 * 1e-4` in FP16. And what is `1e-8` in FP16?
# - Which tensors of the program are FP16? Which of them live on from batch to batch?
# - Look at one argument of `torch.zeros_like`, and at one cast of the gradient.

# %% probe
from amp_lessons.exercises.clinic.harness_losses import moments_cases, play_moments

probe = Probe(moments_cases, play_moments)

# %% judge
judge = Judge(same=within(2e-3))

# %% passed
# Values that pass through once can have 16 bits. An average that small terms are added to needs
# FP32.

# %% right torchs
def fix_moments(model, loss_fn, batches, rate):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()

# %% right wide
def fix_moments(model, loss_fn, batches, rate):
    state = {p: [torch.zeros_like(p).double() for _ in range(2)] for p in model.parameters()}
    for number, (x, y) in enumerate(batches, 1):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x).float(), y)
        loss.backward()
        with torch.no_grad():
            for p, (m, v) in state.items():
                g = p.grad.double()
                m.lerp_(g, 0.1)
                v.mul_(0.999).addcmul_(g, g, value=0.001)
                step = m / (1 - 0.9**number) / ((v / (1 - 0.999**number)) ** 0.5 + 1e-8)
                p -= (rate * step).float()

# %% wrong moments-in-fp16
# Your averages are FP16. A gradient of 1e-4 squared is 1e-8, and in FP16 that is 0, and so is an
# eps of 1e-8. The step divides by zero, or by eps alone. Keep both averages in FP32.
swap("(p)", "(p, dtype=torch.half)", nth=0) & put("g = g.half()", before="m.mul_")
swap("torch.zeros_like(p)", "torch.zeros_like(p).half()", nth=0)
swap("zeros_like(p)", "zeros_like(p).half()", nth=0) & put("g = g.half()", before="m.mul_")
swap("zeros_like(p)", "zeros_like(p).half()", nth=0) & swap("v_hat.sqrt", "v_hat.float().sqrt")
swap("(p)", "(p).half()", nth=0) & swap("m / (", "m.float() / (") & swap("v / (", "v.float() / (")

# %% wrong counted-from-zero
# You count the batches from 0. The bias correction then divides by `1 - 0.9**0`, which is 0.
swap("enumerate(batches, 1)", "enumerate(batches)")
put("number -= 1", before="with torch.autocast")

# %% wrong squared-in-fp16
# You square the gradient in FP16. `1e-4 * 1e-4` is 0 there. Don't cast the gradient to FP16.
put("g = g.half()", before="m.mul_")
swap("g * g", "g.half() * g.half()")
swap("g * g", "g.half() ** 2")

# %% wrong means-in-fp16
# The average of the gradients is FP16, or the gradients are rounded to FP16 on the way. FP16 stores
# 1e-6 with an error of up to 3 percent. Keep this average in FP32 as well.
swap("zeros_like(p)", "zeros_like(p, dtype=torch.float16)", nth=1)
swap("torch.zeros_like(p)", "torch.zeros_like(p).half()", nth=1)
put("g = g.half().float()", before="m.mul_")

# %% wrong eps-raised
# You raised eps. Where the squares are small, the step is now the mean divided by a constant, so it
# depends on the size of the gradient. Keep 1e-8, and keep the averages in FP32.
swap("1e-8", "1e-4")
of("torchs", swap("lr=rate", "lr=rate, eps=1e-4"))
swap("1e-8", "1e-6")
swap("(p)", "(p).half()", nth=0) & put("g = g.half()", before="m.mul_") & swap("1e-8", "1e-3")
swap("(p)", "(p).half()", nth=0) & put("g = g.half()", before="m.mul_") & swap("1e-8", "1e-4")
swap("(p)", "(p).half()", nth=0) & put("g = g.half()", before="m.mul_") & swap("1e-8", "1e-6")
swap("(p)", "(p).half()", nth=0) & put("g = g.half()", before="m.mul_") & swap("1e-8", "1e-7")

# %% wrong moments-in-bfloat16
# An average of yours is BF16, with 8 significant bits. What one step adds may be lost, and `v`
# times 0.999 rounds back to `v`. Keep both averages in FP32.
swap("(p)", "(p).bfloat16()", nth=0) & put("g = g.bfloat16()", before="m.mul_")
swap("zeros_like(p)", "zeros_like(p, dtype=torch.bfloat16)", nth=0)
swap("zeros_like(p)", "zeros_like(p, dtype=torch.bfloat16)", nth=1)
swap("zeros_like(p)", "zeros_like(p, dtype=torch.bfloat16)", nth=2)
swap("torch.zeros_like(p)", "torch.zeros_like(p).bfloat16()", nth=0)
(swap("(p)", "(p).bfloat16()", nth=0) & swap("m / (", "m.float() / (") &
    swap("v / (", "v.float() / ("))

# %% wrong infinities-replaced
# You replaced steps that aren't finite by 0, so weights stand still. Keep the averages in FP32.
(swap("(p)", "(p).half()", nth=0) & put("g = g.half()", before="m.mul_") &
    swap("m_hat / (v_hat.sqrt() + 1e-8)", "torch.nan_to_num(m_hat / v_hat.sqrt(), 0, 0, 0)"))
(swap("(p)", "(p).half()", nth=0) & put("g = g.half()", before="m.mul_") &
    put("g = m_hat / v_hat.sqrt()", before="p.data") & swap("m_hat / (v_hat.sqrt() + 1e-8)",
    "torch.where(g.isfinite(), g, 0)"))

# %% wrong bias-not-corrected
# A bias correction is missing. Divide `m` by `1 - 0.9**number` and `v` by `1 - 0.999**number`.
swap("m / (1 - 0.9**number), v / (1 - 0.999**number)", "m, v")
drop("m_hat, v_hat") & swap("m_hat", "m") & swap("v_hat", "v")
swap("m / (1 - 0.9**number)", "m")
swap("v / (1 - 0.999**number)", "v")

# %% wrong weights-decayed
# Your weights decay: AdamW does that by default, with a decay of 0.01. Use Adam.
of("torchs", swap("Adam(", "AdamW("))
put("p.data *= 1 - 0.01 * rate", before="p.data -=")

# %% wrong eps-in-the-root
# You add eps before the root. The root of 1e-8 is 1e-4, as large as the gradients. Add it after.
swap("(v_hat.sqrt() + 1e-8)", "(v_hat + 1e-8).sqrt()")
swap("(v_hat.sqrt() + 1e-8)", "(1e-8 + v_hat) ** 0.5")

# %% wrong parameters-in-16-bits
# The parameters are 16 bits, where a small step is lost. Keep them in FP32: autocast casts them.
put("model.bfloat16()", before="parameters =")
put("for p in model.parameters(): p.data = p.data.to(torch.bfloat16)", before="parameters =")

# %% wrong another-precision
# The forward pass doesn't run in BF16. Keep `torch.autocast("cpu", dtype=torch.bfloat16)`.
swap("dtype=torch.bfloat16", "dtype=torch.float16")
swap("dtype=torch.bfloat16", "enabled=False")
unwrap("with torch.autocast")

# %% wrong stale-copies
wrap('with torch.autocast("cpu", dtype=torch.bfloat16):', "for number")
put("@torch.autocast('cpu', dtype=torch.bfloat16)", before="def fix_")

# %% wrong never-zeroed
of("torchs", drop("optimizer.zero_grad()"))
of("wide", drop("model.zero_grad()"))
