# %% statement points=3 minutes=25
# # Case 10: memory saved, precision lost
#
# To save memory, each block of a deep model is a checkpoint. Its forward pass keeps only its input,
# and the backward pass runs the block a second time. The head is kept in FP32 on purpose.

# %% given
class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x):
        ctx.block = block
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            output = ctx.block(x)
        torch.autograd.backward(output, gradient)
        return None, x.grad

# %% demo
def recomputed(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = Recompute.apply(block, hidden)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(2))
head = nn.Linear(6, 3)
optimizer = torch.optim.SGD([*blocks.parameters(), *head.parameters()], lr=0.5)
try:
    recomputed(blocks, head, optimizer, scaler(), cross_entropy, some_batches(1))
except RuntimeError as error:
    print("RuntimeError:", error)

# %% text
# Fix it. Call your version `fix_recompute` and keep the arguments. Backward runs the blocks again,
# in the precision of their forward pass. The head stays in FP32, forward and backward.
#
# You may write a Function of your own above it, or use torch's `checkpoint`. Make a checkpoint of
# each block, or one of several blocks: the check accepts both.

# %% answer
def fix_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    """Train on each batch once, in FP16 with the scaler, with the blocks in checkpoints."""
    ### BEGIN SOLUTION
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = checkpoint(block, hidden, use_reentrant=False)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION

# %% hints
# - Is autocast on when the `backward` of the Function runs?
# - What needs the FP16 region: the second run of a block, or the whole backward pass?
# - `torch.utils.checkpoint` remembers the region for you.

# %% probe
from amp_lessons.exercises.clinic.harness_losses import play_recompute, recompute_cases

probe = Probe(recompute_cases, play_recompute)

# %% judge
judge = Judge(same=within(1e-2), pairs=False)

# %% passed
# Code that runs a forward pass again has to open its region again. torch's `checkpoint` does.

# %% right own
class Again(Recompute):
    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad(), torch.autocast("cpu", dtype=torch.float16):
            output = ctx.block(x)
        torch.autograd.backward(output, gradient)
        return None, x.grad

def fix_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        hidden = x.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.float16):
            for block in blocks:
                hidden = Again.apply(block, hidden)
            with torch.autocast("cpu", enabled=False):
                loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

# %% right all_blocks_in_one_and_reentrant
def fix_recompute(blocks, head, optimizer, scaler, loss_fn, batches):
    def body(x):
        for block in blocks:
            x = block(x)
        return x

    for x, y in batches:
        optimizer.zero_grad()
        x = x.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.float16):
            hidden = checkpoint(body, x, use_reentrant=True)
        loss = loss_fn(head(hidden.float()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

# %% rule checkpoint-removed
# Most layers keep their activations for the backward pass, or don't run again in it. The program is
# there to save that memory. Make every block part of a checkpoint.
def breaks(seen, right):
    once = noted(seen, "layers run again in the backward pass") == "few or none"
    return noted(seen, "activations kept for the backward pass") == "those of most layers" or (
        once and noted(seen, "blocks whose weights have changed") == "3 of 3")
swap("checkpoint(block, hidden, use_reentrant=False)", "block(hidden)")
(swap("for block in blocks:", "for block in blocks[:1]:") &
    put("for block in blocks[1:]: hidden = block(hidden)", after="for block in blocks[:1]"))

# %% wrong head-given-fp16
# The head gets the blocks' FP16 result. Autocast is off there, so nothing casts it, and it meets
# FP32 weights. Keep `hidden.float()`.
swap("hidden.float()", "hidden")
of("own", swap("hidden.float()", "hidden.half()"))
of("all_blocks_in_one_and_reentrant", swap("hidden.float()", "hidden"))

# %% wrong recomputed-outside
# The second run of a block is outside autocast, as the backward pass is, and an FP16 input meets
# FP32 weights there. Open the FP16 region again in `backward`, around that run.
of("own", swap("Again.apply(", "Recompute.apply("))
of("own", unwrap("with torch.enable_grad()") & wrap("with torch.enable_grad():", "output ="))

# %% wrong recomputed-in-float32
# You cast the input to FP32, so the second run of the block is in FP32. That is slower, and its
# gradient belongs to another forward pass than the loss. Open the FP16 region around that run.
of("own", swap(', torch.autocast("cpu", dtype=torch.float16):', ":") & swap("k(x)", "k(x.float())"))
of("own", swap("dtype=torch.float16", "enabled=False", nth=1) & swap("k(x)", "k(x.float())"))

# %% wrong recomputed-in-bfloat16
# You open a region for the second run, but in BF16, a CPU's default. Write `dtype=torch.float16`.
of("own", swap(", dtype=torch.float16", "", nth=1))
of("own", put("ctx.block = torch.autocast('cpu', dtype=torch.bfloat16)(ctx.block)",
    before="with torch.enable_grad()"))

# %% wrong backward-in-the-region
# The whole backward pass is in the region now, so the matrix products for the gradient of the head
# run in FP16 too. Open the region only around the second run of a block.
of("own", swap("Again.apply(", "Recompute.apply(") &
    wrap('with torch.autocast("cpu", dtype=torch.float16):', "scaler.scale(loss)"))
wrap('with torch.autocast("cpu", dtype=torch.float16):', "scaler.scale(loss)")

# %% wrong blocks-untrained
# The blocks, or the first of them, get no gradient. A Function of your own, or a checkpoint with
# `use_reentrant=True`, needs an input that requires a gradient, and a batch doesn't. Use
# `use_reentrant=False`, or `x.clone().requires_grad_()`.
swap("use_reentrant=False", "use_reentrant=True")
of("own", swap("hidden = x.clone().requires_grad_()", "hidden = x"))
(of("own", swap("x.clone().requires_grad_()", "x")) & put("hidden.requires_grad_()",
    after="hidden = Again"))

# %% wrong head-in-the-region
# The head runs in FP16. Switch autocast off around it, and give it an FP32 input.
swap('torch.autocast("cpu", enabled=False)', 'torch.autocast("cpu", dtype=torch.float16)')
of("own", unwrap('with torch.autocast("cpu", enabled=False)'))

# %% wrong another-precision
# Your blocks don't run in FP16. Keep `dtype=torch.float16` around their forward pass.
swap("checkpoint(block,", "checkpoint(torch.autocast('cpu', enabled=False)(block),")
