# %% statement points=2 minutes=15
# # How much runs in 16 bits
#
# Write `low_flop_share(model, x, region)`. Which share of the FLOPs of `model(x)` is computed in 16
# bits under CPU autocast to `region`? Count float16 and bfloat16, whichever `region` is, because a
# model may open an inner region. Return a number between 0 and 1.
#
# Count the ops that `torch.utils.flop_counter.flop_registry` has a formula for: matrix products and
# convolutions, in the forward pass only. `flop_registry[op](*args, **kwargs, out_val=out)` gives
# the FLOPs of a call.
#
# To see the ops, subclass `TorchDispatchMode` and write
# `__torch_dispatch__(self, func, types, args=(), kwargs=None)`. Inside `with` an instance of it,
# torch calls that method in place of each op, below autocast, where the casts have been made. It
# must call `func(*args, **(kwargs or {}))` and return the result. `func.overloadpacket` is the op.
# Don't run the model in `inference_mode`: there torch doesn't take its layers apart.

# %% given
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

# %% answer
def low_flop_share(model, x, region):
    """The share of the matmul and convolution FLOPs of model(x) that runs in 16 bits."""
    ### BEGIN SOLUTION
    low, total = 0, 0

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal low, total
            out = func(*args, **(kwargs or {}))
            if func.overloadpacket in flop_registry:
                formula = flop_registry[func.overloadpacket]
                flops = formula(*args, **(kwargs or {}), out_val=out)
                total += flops
                low += flops if out.dtype.itemsize == 2 else 0
            return out

    with torch.autocast("cpu", dtype=region), Count():
        model(x)
    return low / total
    ### END SOLUTION

# %% hints
# - An op computed in the dtype of its result. Below autocast the casts have been made already.
# - Does `func.overloadpacket in flop_registry` hold? Then that entry is the formula. It takes the
#   arguments of the call, and the result as `out_val`.
# - Call the op first, then look at `out.dtype`. Keep two sums of FLOPs, and return `out`.

# %% probe
from amp_lessons.exercises.autocast_ops.harness_models import play_share, share_cases

probe = Probe(share_cases, play=play_share, own=("amp_lessons.amp.explain",))

# %% judge
judge = Judge(same=within(1e-6))

# %% passed
# Few of autocast's rules cast to 16 bits, and those few do most of the FLOPs.

# %% right fraction
from collections import Counter
from fractions import Fraction

def low_flop_share(model, x, region):
    flops = Counter()

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if formula := flop_registry.get(func.overloadpacket):
                flops[result.dtype] += formula(*args, **(kwargs or {}), out_val=result)
            return result

    with torch.autocast("cpu", dtype=region), Watch():
        model(x)
    return Fraction(flops[torch.float16] + flops[torch.bfloat16], sum(flops.values()))

# %% wrong nothing-counted
# None of the ops that you saw has a formula. The keys of `flop_registry` are
# `func.overloadpacket`s, not `func`s. And in `inference_mode` torch doesn't take layers apart.
swap("if func.overloadpacket in", "if func in")
swap("with torch.autocast", "with torch.inference_mode(), torch.autocast")

# %% wrong result-not-returned
# Your `__torch_dispatch__` gives the model None. Return what `func` returned.
drop("return out")
of("fraction", drop("return result"))

# %% wrong no-region
# You ran the model without the region. Write `with torch.autocast("cpu", dtype=region)` around it.
swap('torch.autocast("cpu", dtype=region), ', "")
swap("dtype=region)", "dtype=region, enabled=False)")

# %% wrong always-zero
# Your share is 0 for every model. Is the region open around the call? Look at the dtype of what the
# ops return: parameters stay in float32. In `inference_mode`, layers and `@` arrive whole, and
# `flop_registry` has no formula for those.
swap("out.dtype.itemsize", "next(model.parameters()).dtype.itemsize")
swap("with ", "with torch.inference_mode(), ") & put("total = total or 1", before="return low")

# %% wrong always-one
# Your share is 1 for every model. A model can switch autocast off: look at each op's dtype.
drop("low += ") & swap("low / total", "total / total")
swap("out.dtype.itemsize == 2", "True")

# %% wrong one-format-only
# You counted one 16-bit format only. A model may open an inner region with the other: count both.
swap("out.dtype.itemsize == 2", "out.dtype == region")
swap("out.dtype.itemsize == 2", "out.dtype == torch.float16")
swap("out.dtype.itemsize == 2", "out.dtype == torch.bfloat16")
of("fraction", swap("flops[torch.float16] + flops[torch.bfloat16]", "flops[region]"))

# %% wrong counts-ops
# You counted matrix products, not their FLOPs: a large one weighs as much as a small one.
swap("flops = formula(*args, **(kwargs or {}), out_val=out)", "flops = 1")
of("fraction", swap("formula(*args, **(kwargs or {}), out_val=result)", "1"))

# %% wrong counts-elements
# You weighed each op by the size of its result. The FLOPs of a product also depend on the length of
# its sums: `(m, k) @ (k, n)` takes 2mkn. The formula in `flop_registry` knows that.
swap("flops = formula(*args, **(kwargs or {}), out_val=out)", "flops = out.numel()")
of("fraction", swap("formula(*args, **(kwargs or {}), out_val=result)", "result.nelement()"))

# %% wrong counts-every-op
# You counted ops of every kind. Ask for the FLOPs of those that `flop_registry` has a formula for.
(swap("func.overloadpacket in flop_registry:", "isinstance(out, torch.Tensor):") &
    swap("formula(*args, **(kwargs or {}), out_val=out)", "1") & drop("formula ="))
(swap("func.overloadpacket in flop_registry:", "isinstance(out, torch.Tensor):") &
    swap("formula(*args, **(kwargs or {}), out_val=out)", "1") & drop("formula =") &
    swap("with ", "with torch.no_grad(), "))
of("fraction", swap("formula := flop_registry.get(func.overloadpacket)",
    "torch.is_tensor(result)") & swap("formula(*args, **(kwargs or {}), out_val=result)", "1") &
    swap("with torch.autocast", "with torch.no_grad(), torch.autocast"))

# %% wrong products-missed
# You missed some products. With a bias a layer is an `addmm`, without one it may be an `mm`; `q @
# k` is a `bmm`, and convolutions count too. Let `flop_registry` say for every op whether it counts.
swap("in flop_registry", "in (torch.ops.aten.addmm, torch.ops.aten.convolution)", nth=1)
put("if func.overloadpacket.__name__ in ('mm', 'bmm'): return out", before="if func")
(swap("in flop_registry", "in (torch.ops.aten.mm, torch.ops.aten.convolution)", nth=1) &
    swap("low / total", "low / max(total, 1)"))
put("if func.overloadpacket == torch.ops.aten.convolution: return out", before="if func")

# %% wrong inputs-before-the-cast
# You took the dtype of what goes into a layer. It is cast later, which a `TorchDispatchMode` sees.

# %% program what_goes_in
def low_flop_share(model, x, region):
    counted = []

    def hook(module, args, output):
        flops = 2 * module.weight.numel() * (output.numel() // len(module.weight))
        counted.append((flops, args[0].dtype))

    for layer in [m for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv1d))]:
        layer.register_forward_hook(hook)
    with torch.autocast("cpu", dtype=region):
        model(x)
    return sum(n for n, d in counted if d.itemsize == 2) / sum(n for n, d in counted)

# %% program what_comes_with_it
def low_flop_share(model, x, region):
    flops = {2: 0, 4: 0}

    def hook(layer, args, out):
        if hasattr(layer, "weight"):
            flops[args[0].itemsize] += out.numel() * layer.weight[0].numel()

    for module in model.modules():
        module.register_forward_hook(hook)
    with torch.autocast("cpu", dtype=region):
        model(x)
    return flops[2] / sum(flops.values())

# %% wrong float64-counted
# You counted float64 as well, which autocast leaves alone. Count float16 and bfloat16 only.
swap("itemsize == 2", "itemsize != 4")
of("fraction", swap("flops[torch.float16]", "flops[torch.float64] + flops[torch.float16]"))

# %% wrong the-other-share
# You returned the share that does not run in 16 bits.
swap("low / total", "1 - low / total")
swap("itemsize == 2", "itemsize > 2")

# %% wrong ratio-not-share
# You divided the 16-bit FLOPs by the others. A share is divided by all of them.
swap("low / total", "low / (total - low) if low < total else 1.0")
swap("low / total", "low / (total - low)")
put("total -= low", before="return low")
of("fraction", swap("sum(flops.values())", "flops[torch.float32] + flops[torch.float64]"))

# %% wrong percent
# You returned a percentage. Return the share, a number between 0 and 1.
swap("low / total", "100 * low / total")
of("fraction", swap("Fraction(", "100 * Fraction("))

# %% wrong backward-counted
# You counted the backward pass too. The share of the forward pass alone was asked for.
swap("model(x)", "model(x).sum().backward()", nth=2)
of("fraction", swap("model(x)", "out = model(x)\n        out.mean().backward()"))

# %% wrong ready-made

# %% program with_the_course_package
def low_flop_share(model, x, region):
    from amp_lessons import explain_autocast

    return explain_autocast(model, x, device="cpu", dtype=region).totals.share_16bit
