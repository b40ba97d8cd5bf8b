# %% statement points=2 minutes=10
# # A block that runs twice
#
# Write `checkpointed(block, x, dtype)`: run a block with activation checkpointing under autocast.
#
# - Run `block`, an `nn.Sequential`, on `x` under `torch.autocast("cpu", dtype=dtype)`, and return
#   its output.
# - Keep `x` for the backward pass, and nothing from inside the block. All of its layers run again.
# - The check calls `backward()` later, outside of autocast. The gradients must be those of a plain
#   run from the same random state.
#
# The block has dropout. `x` may or may not need a gradient. The parameters stay in FP32.

# %% answer
def checkpointed(block, x, dtype):
    """The block's output under autocast; its activations are computed again in backward."""
    ### BEGIN SOLUTION
    with torch.autocast("cpu", dtype=dtype):
        return checkpoint(block, x, use_reentrant=False)
    ### END SOLUTION

# %% hints
# - `torch.utils.checkpoint.checkpoint` keeps nothing from inside a block. What must be open around
#   it when you call it?
# - `use_reentrant` chooses one of two implementations. Which works if `x` needs no gradient?

# %% probe
from amp_lessons.exercises.compile_and_checkpoint.harness import checkpoint_cases, play_checkpointed

probe = Probe(checkpoint_cases, play=play_checkpointed)

# %% judge
judge = Judge(same=within(1e-5), asked_for="the block's output")

def masks(seen):
    """The dropout masks of the two runs; nothing where the block ran more than once before."""
    if noted(seen, "runs before backward()") != 1:
        return None, None
    return [noted(seen, f"dropout mask of the {which} run") for which in ("first", "second")]

# %% passed
# The block runs twice, with the same dtype and random numbers. `checkpoint` takes care of both.

# %% right region_inside
def checkpointed(block, x, dtype):
    @torch.autocast("cpu", dtype=dtype)
    def run(x):
        return block(x)

    return checkpoint(run, x, use_reentrant=False)

# %% right function_of_your_own
def checkpointed(block, x, dtype):
    class Again(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x, *weights):
            ctx.save_for_backward(x)
            ctx.weights, ctx.state = weights, torch.get_rng_state()
            return block(x)

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, gradient):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.random.fork_rng(), torch.enable_grad():
                torch.set_rng_state(ctx.state)
                y = block(x)
            return torch.autograd.grad(y, [x, *ctx.weights], gradient)

    with torch.autocast("cpu", dtype=dtype):
        return Again.apply(x, *block.parameters())

# %% rule block-cast
# You cast the block itself, so the caller's parameters now have 16 bits. Small updates of an
# optimizer are lost in them. Leave the parameters in FP32. Autocast makes its own copies.
def breaks(seen, right):
    return noted(seen, "dtype of the block's parameters") not in (None, "float32")
swap("checkpoint(block, x", "checkpoint(block.to(dtype), x")
unwrap("with torch") & swap("checkpoint(block, x", "checkpoint(block.to(dtype), x.to(dtype)")

# %% rule no-autocast
# Your block ran in FP32. Run it under `torch.autocast("cpu", dtype=dtype)`.
def breaks(seen, right):
    return noted(seen, "dtype of the first run") == "float32"
unwrap("with torch")
put("x = x", before="with torch") & swap("dtype=dtype", "dtype=dtype, enabled=False")

# %% rule another-precision
# Your block ran in {ran}, and `dtype` was {asked}. Pass `dtype=dtype` on to autocast.
def breaks(seen, right):
    ran, asked = (noted(one, "dtype of the first run") for one in (seen, right))
    return ran in ("float16", "bfloat16") and ran != asked and {"ran": ran, "asked": asked}
swap(", dtype=dtype", "")
of("region_inside", swap("dtype=dtype", "dtype=torch.float16"))

# %% rule nothing-recomputed
# All activations were kept: no layer ran again. Let `torch.utils.checkpoint` run the block.
def breaks(seen, right):
    ran = noted(seen, "runs before backward()") == 1
    return ran and noted(seen, "layers that run again") == "none"
swap("checkpoint(block, x, use_reentrant=False)", "block(x)")
(swap("dtype=dtype)", "dtype=dtype), torch.autograd.graph.save_on_cpu()") &
    swap("checkpoint(block, x, use_reentrant=False)", "block(x)"))

# %% rule kept-in-between
# You keep more than `x`. A layer outside of the checkpoint keeps its activations. With several
# checkpoints, what goes from one to the next stays too. Put one around the whole block.
def breaks(seen, right):
    ran = noted(seen, "runs before backward()") == 1
    return ran and noted(seen, "kept for the backward pass") == "more than x"
swap("checkpoint(block, x", "checkpoint(block[-1], block[:-1](x)")
(put("for layer in block: x = checkpoint(layer, x, use_reentrant=False)", before="return") &
    swap("return checkpoint(block, x, use_reentrant=False)", "return x"))

# %% rule recompute-in-fp32
# The second run of your block was in FP32, since `backward()` is called outside of autocast. Let
# torch's `checkpoint` restore autocast, or `custom_fwd` and `custom_bwd` of a Function of your own.
def breaks(seen, right):
    runs = [noted(seen, f"dtype of the {which} run") for which in ("first", "second")]
    return runs[1] == "float32" and runs[0] != "float32"
of("function_of_your_own", swap('@torch.amp.custom_bwd(device_type="cpu")', ""))

# %% rule dropout-off
# You switched dropout off. Leave it on: `checkpoint` repeats its random numbers.
def breaks(seen, right):
    return "." not in (noted(seen, "dropout mask of the first run") or ".")
put("block.eval()", before="with torch")

# %% rule reseeded
# You set the random state before the block runs, so it doesn't drop what a plain run drops.
# `checkpoint` repeats the random numbers of the first run, whatever they are.
def breaks(seen, right):
    first, second = masks(seen)
    return first == second and first not in (None, masks(right)[0])
of("region_inside", put("torch.manual_seed(0)", before="return block"))

# %% rule other-dropout
# Your second run drew another dropout mask than the first. Leave `preserve_rng_state` at True. A
# Function of your own has to save `torch.get_rng_state()` and set it again in its backward.
def breaks(seen, right):
    first, second = masks(seen)
    return first != second and noted(seen, "layers that run again") == "all"
swap("use_reentrant=False", "use_reentrant=False, preserve_rng_state=False")
of("function_of_your_own", drop("torch.set_rng_state"))

# %% wrong reentrant
# Where `x` needs no gradient, your output has no graph, and nothing is trained. Pass
# `use_reentrant=False`. If you wrote a Function of your own, hand it the parameters too.
swap("use_reentrant=False", "use_reentrant=True")
of("function_of_your_own", swap(", *block.parameters())", ")") &
    swap("return torch.autograd.grad(y, [x, *ctx.weights], gradient)",
    "y.backward(gradient)\n            return x.grad"))

# %% wrong no-graph
# Your output has no graph, so nothing can run backward. Leave `no_grad()` and `detach()` out.
swap("with ", "with torch.no_grad(), ")
of("region_inside", swap("use_reentrant=False)", "use_reentrant=False).detach()"))

# %% wrong input-detached
# `x` gets no gradient: you detached it, or your backward returns None for it. Pass `x` on as it is.
swap("checkpoint(block, x", "checkpoint(block, x.detach()")
of("function_of_your_own", swap("ctx.weights], gradient)", "ctx.weights], gradient)[1:]") &
    swap("return torch.autograd.grad(", "return None, *torch.autograd.grad("))

# %% wrong output-cast
# Your output is in FP32. Return what the block gives under autocast, in `dtype`.
swap("use_reentrant=False)", "use_reentrant=False).float()")
of("region_inside", swap("return block(x)", "return block(x).float()"))

# %% rule returned-none
def breaks(seen, right):
    return noted(seen, "output") == "NoneType"
swap("return ", "")
