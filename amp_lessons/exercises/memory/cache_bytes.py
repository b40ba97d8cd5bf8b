# %% statement points=3 minutes=15
# # What the cast cache holds
#
# Write `cache_bytes(model, x)`. Run `model(x)` in a region of
# `torch.autocast("cpu", dtype=torch.bfloat16)`. How many bytes of 16-bit copies does the cache of
# autocast hold just before the region ends?
#
# `model` is any small module. Some parameters are frozen, shared, used twice or not used, some are
# bfloat16 already, and not every layer casts its parameters. Return a whole number. Leave the model
# as it is: remove your hooks, and leave no gradient on it.

# %% answer
def cache_bytes(model, x):
    """Bytes of the casts of parameters that autocast keeps until its region ends."""
    ### BEGIN SOLUTION
    from torch.utils._python_dispatch import TorchDispatchMode

    trained = {id(p) for p in model.parameters() if p.requires_grad}
    copies = {}

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if func is torch.ops.aten._to_copy.default and id(args[0]) in trained:
                copies[id(args[0])] = result.nbytes
            return result

    with Watch(), torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
    return sum(copies.values())
    ### END SOLUTION

# %% hints
# - Three questions: which parameters does autocast cast at all, which of the copies does it keep,
#   and how often is one parameter cast?
# - A `TorchDispatchMode` sees each cast as `aten::_to_copy`, with its source and its result.
#   The lesson on autocast regions uses one.
# - Keep the results whose source is a parameter that requires a gradient. Count each source once.

# %% probe
from amp_lessons.exercises.memory.harness import cache_cases, play_on_a_model

own = ("amp_lessons.amp.memory.training", "amp_lessons.amp.explain")
probe = Probe(cache_cases, play=play_on_a_model, own=own)

# %% judge
judge = Judge(asked_for="a whole number of bytes")

# %% passed
# The cache holds two bytes for each number of a trained float32 parameter that a 16-bit op took as
# it is. A view, such as `weight.T`, is cast at each use and not kept.

# %% right sees_the_calls
def cache_bytes(model, x):
    from torch.overrides import TorchFunctionMode

    casting, used = ("linear", "conv2d", "matmul"), []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func.__name__.strip("_") in casting:
                given = [*args, *(kwargs or {}).values()]
                used.extend(a for a in given if isinstance(a, nn.Parameter))
            return func(*args, **(kwargs or {}))

    with Watch(), torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
    layers = model.modules()
    own = {p for layer in layers for p in layer.parameters(recurse=False)}
    total = 0
    for p in own:
        if p in set(used) and p.requires_grad and p.dtype == torch.float32:
            total += 2 * p.numel()
    return total

# %% right copies_that_outlive_the_forward
def cache_bytes(model, x):
    from torch.multiprocessing.reductions import StorageWeakRef
    from torch.utils._python_dispatch import TorchDispatchMode

    made = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func is torch.ops.aten._to_copy.default and out.dtype == torch.bfloat16:
                made.append((StorageWeakRef(out.untyped_storage()), out.nbytes))
            return out

    with torch.autocast("cpu", dtype=torch.bfloat16):
        with Watch():
            model(x)
        return sum(size for copy, size in made if not copy.expired())

# %% wrong every-parameter
# You counted parameters without a look at the ops. Autocast casts only what a 16-bit op takes, not
# a LayerNorm, an Embedding or what doesn't run. It keeps no copies of frozen parameters.
of("sees_the_calls", swap("p in set(used) and ", ""))
put("return sum(2 * p.numel() for p in model.parameters())", before="from")
put("return sum(2 * p.numel() for p in model.parameters() if p.requires_grad)", before="from")
put("return sum(2 * p.numel() for p in model.parameters() if p.requires_grad"
    " and p.dtype != torch.bfloat16)", before="from")

# %% wrong frozen-counted
# You counted copies of frozen parameters. Autocast makes them, but keeps none of them.
swap(" if p.requires_grad", "")
of("sees_the_calls", swap("p.requires_grad and ", ""))

# %% wrong bfloat16-counted
# You counted parameters that are bfloat16 already. They are not cast, so the cache holds nothing.
of("sees_the_calls", swap(" and p.dtype == torch.float32", ""))
of("sees_the_calls", swap("p.dtype == torch.float32", "p.is_floating_point()"))

# %% wrong float32-layers-counted
# You counted parameters of layers that don't cast them, such as a LayerNorm or an Embedding.
of("sees_the_calls", swap('func.__name__.strip("_") in casting', "True"))
of("sees_the_calls", swap('"matmul")', '"matmul", "layer_norm", "embedding")'))

# %% wrong activations-counted
# You counted casts of activations. The cache keeps casts of leaf tensors that require a gradient:
# here these are the parameters.
of("copies_that_outlive_the_forward", swap(" if not copy.expired()", ""))
(swap("id(args[0]) in trained", "result.dtype == torch.bfloat16") & swap("copies[id(args[0])]",
    "copies[len(copies)]"))

# %% wrong saved-for-backward
# You counted what autograd saves for backward. The cache also keeps the copies of biases.
of("copies_that_outlive_the_forward", swap("model(x)", "output = model(x)") &
    swap("        return sum", "    return sum"))
of("copies_that_outlive_the_forward", swap("model(x)", "output = model(x)") &
    put("torch.clear_autocast_cache()", before="return sum"))
swap("Watch(), ", "torch.autograd.graph.saved_tensors_hooks(lambda t: copies.update({t.data_ptr():"
    " t.nbytes * (t.dtype == torch.bfloat16)}) or t, lambda t: t), ")

# %% wrong weights-only
# You left out the biases. A 16-bit layer casts its bias too, and the cache keeps that copy.
swap("if p.requires_grad", "if p.requires_grad and p.dim() > 1")
of("sees_the_calls", swap("and p.requires_grad", "and p.requires_grad and p.dim() > 1"))

# %% wrong bytes-of-the-original
# You counted the float32 originals. A copy in the cache takes two bytes per number, not four.
swap("result.nbytes", "args[0].nbytes")
of("sees_the_calls", swap("2 * p.numel()", "4 * p.numel()"))

# %% wrong numbers-counted
# You counted numbers. The task asks for bytes, and a bfloat16 number takes two.
swap("result.nbytes", "result.numel()")
of("sees_the_calls", swap("2 * p.numel()", "p.numel()"))

# %% wrong counted-at-each-use
# You counted a parameter each time that it is used. Autocast casts it once and keeps the copy.
of("sees_the_calls", swap("for p in own", "for p in used") & swap("p in set(used)", "p in own"))
(swap("copies[id(args[0])]", "copies[len(copies)]") & swap("dtype=torch.bfloat16",
    "dtype=torch.bfloat16, cache_enabled=False"))

# %% wrong known-layers-only
# You looked for types of layers. Autocast also keeps a parameter that is multiplied without one.
of("sees_the_calls", put("layers = [m for m in layers if isinstance(m, nn.Linear | nn.Conv2d)]",
    before="own = "))
of("sees_the_calls", swap("layer.parameters(recurse=False)",
    "layer.parameters() if type(layer) in (nn.Linear, nn.Conv2d)"))

# %% wrong shared-counted-twice
# You added up what each `nn.Linear` or `nn.Conv2d` holds. Autocast looks at ops: it casts a weight
# that two layers share once, and also a parameter that is multiplied without such a layer.
of("sees_the_calls", swap("own = {p for layer in layers for p in layer.parameters(recurse=False)}",
    "own = [p for m in layers if isinstance(m, nn.Linear | nn.Conv2d) for p in m.parameters()]"))
of("sees_the_calls", swap("for p in own", "for p in [q for m in model.modules() for q in"
    " m.parameters(recurse=False) if type(m) in (nn.Linear, nn.Conv2d)]"))

# %% wrong unused-counted
# You looked at which layers the model has. One that doesn't run casts nothing: run the model.
of("sees_the_calls", put("layers = [m for m in layers if isinstance(m, nn.Linear | nn.Conv2d)]",
    before="own = ") & swap("p in set(used) and ", ""))
of("sees_the_calls", swap("p in set(used) and ", "") & swap("model.modules()",
    "[m for m in model.modules() if type(m) in (nn.Linear, nn.Conv2d)]"))

# %% wrong one-copy-per-shape
# You told copies apart by shape or size, so of two like ones you counted one. Take their `id`.
swap("copies[id(args[0])]", "copies[args[0].shape]")
swap("copies[id(args[0])]", "copies[args[0].numel()]")

# %% wrong no-region
# Nothing was cast, because you ran the model outside the autocast region, or autocast was off.
# Call `model(x)` inside `with torch.autocast("cpu", dtype=torch.bfloat16):`.
swap('Watch(), torch.autocast("cpu", dtype=torch.bfloat16)', "Watch()")
swap("dtype=torch.bfloat16", "dtype=torch.bfloat16, enabled=False")

# %% wrong changed-argument
put("model.register_forward_hook(lambda *_: None)", before="with Watch()")
put("model.eval()", before="with Watch()")

# %% wrong ready-made
# %% program the_course_watches
def cache_bytes(model, x):
    from amp_lessons.amp.memory import CastCache

    with CastCache() as cache, torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
    return sum(cache.sizes.values())

# %% program the_course_explains
def cache_bytes(model, x):
    from amp_lessons import explain_autocast

    return explain_autocast(model, x, dtype=torch.bfloat16, device="cpu").totals.cached_bytes
