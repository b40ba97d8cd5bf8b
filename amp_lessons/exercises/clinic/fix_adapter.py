# %% statement points=3 minutes=15
# # Case 3: an adapter on a half model
#
# A large model is frozen and kept in FP16, because it doesn't fit into memory otherwise. A small
# adapter is trained beside it. The adapter was loaded from a file, in FP16 too.

# %% demo
class Adapter(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 3, bias=False)

    def forward(self, x):
        return self.up(self.down(x))


def train_adapter(base, adapter, scaler, loss_fn, batches, rate):
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(base(x) + adapter(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


base = nn.Linear(6, 3).half().requires_grad_(False)
try:
    train_adapter(base, Adapter().half(), scaler(), cross_entropy, some_batches(3), 0.5)
except ValueError as error:
    print("ValueError:", error)

# %% text
# Fix it. Call your version `fix_adapter` and keep the arguments. `adapter` comes in FP16. The base
# stays in FP16, and all matrix products run in FP16.
#
# The check's loss has a small weight, so its gradients need the scale. In some runs the learning
# rate is small too: one update is then less than half an FP16 ulp of most weights. Many of them
# together still have to move them. At the end `adapter` holds the trained weights, in either dtype.

# %% answer
def fix_adapter(base, adapter, scaler, loss_fn, batches, rate):
    """Train the adapter beside the frozen base, in FP16 with the scaler."""
    ### BEGIN SOLUTION
    adapter.float()
    optimizer = torch.optim.SGD(adapter.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(base(x) + adapter(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION

# %% hints
# - Which of the two modules has the gradients that the scaler complains about?
# - Which module is trained? In which dtype do weights have to be while you train them?
# - Under autocast, a layer with FP32 weights still computes in FP16.

# %% probe
from amp_lessons.exercises.clinic.harness_cases import adapter_cases, play_adapter

probe = Probe(adapter_cases, play_adapter)

# %% judge
judge = Judge(same=within(6e-4))

# %% passed
# Weights that are trained are kept in FP32. Frozen weights may have any dtype that autocast casts.

# %% right masters
def fix_adapter(base, adapter, scaler, loss_fn, batches, rate):
    params = list(adapter.parameters())
    masters = [p.detach().float().requires_grad_() for p in params]
    optimizer = torch.optim.SGD(masters, lr=rate)
    for x, y in batches:
        adapter.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(base(x) + adapter(x), y)
        scaler.scale(loss).backward()
        for m, p in zip(masters, params, strict=True):
            m.grad = p.grad.float()
        scaler.step(optimizer)
        scaler.update()
        with torch.no_grad():
            for m, p in zip(masters, params, strict=True):
                p.copy_(m)

# %% right copies
def fix_adapter(base, adapter, scaler, loss_fn, batches, rate):
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
    for n, p in adapter.named_parameters():
        p.data = masters[n].detach()

# %% rule scaler-thrown-out
# The adapter's gradients and updates are {dtype}, so small ones are lost. Train FP32 weights.
def breaks(seen, right):
    names = {"float16": "FP16", "bfloat16": "BF16"}
    found = names.keys() & set((noted(seen, "dtype of the gradients") or "").split(", "))
    return {"dtype": " and ".join(sorted(names[dtype] for dtype in found))} if found else None
(drop("adapter.float()") &
    swap("scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    "loss.backward()\noptimizer.step()"))
swap("adapter.float()", "adapter.bfloat16()")

# %% rule base-in-fp32
# You cast the base to FP32 as well. It is frozen, and FP16 saves memory. Cast only the adapter.
def breaks(seen, right):
    return noted(seen, "dtype of the base's weights") == "float32"
swap("adapter.float()", "base, adapter = base.float(), adapter.float()")

# %% wrong fp16-gradients
# The adapter's parameters are FP16, so their gradients are too, and the scaler refuses to unscale
# them: small ones would be zero again. Weights that are trained have to be FP32.
drop("adapter.float()")
swap("adapter.float()", "base.float()")

# %% wrong master-weights-missing
# You round the adapter's weights to FP16 again and again. An update of less than half an FP16 ulp
# is lost each time. Keep the weights in FP32 from the first batch to the last.
put("adapter.half().float()", after="scaler.update()")
put("for p in adapter.parameters(): p.data = p.data.half().float()", before="optimizer.zero_grad")

# %% wrong copy-of-the-adapter
# You train FP32 copies, and the caller's `adapter` stays as it was. Train the module that was
# passed in, or copy the weights back, after each step if the forward pass uses the adapter's own.
swap("adapter.float()", "import copy; adapter = copy.deepcopy(adapter).float()")
of("copies", drop("for n, p in adapter"))
of("masters", drop("with torch.no_grad()"))

# %% wrong another-precision
# The matrix products of the adapter, or all of them, don't run in FP16 under autocast. Keep the
# region with its `dtype=torch.float16`. You need no casts of your own in it.
unwrap("with torch.autocast") & swap("base(x)", "base(x.half())")

# %% wrong scaler-bypassed
# The loss is not scaled, so its FP16 gradients are zero. You need FP32 weights and the scaler.
