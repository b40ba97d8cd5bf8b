# === mutant: all_parameters -> every-parameter
def cache_bytes(model, x):
    return sum(2 * p.numel() for p in model.parameters())


# === mutant: all_trained -> every-parameter
def cache_bytes(model, x):
    return 2 * sum(p.numel() for p in model.parameters() if p.requires_grad)


# === mutant: casts_of_parameters -> frozen-counted
def cache_bytes(model, x):
    from torch.utils._python_dispatch import TorchDispatchMode

    own, copies = {id(p) for p in model.parameters()}, {}

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func is torch.ops.aten._to_copy.default and id(args[0]) in own:
                copies[id(args[0])] = out.nbytes
            return out

    with Watch(), torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
    return sum(copies.values())


# === mutant: all_casts -> activations-counted
def cache_bytes(model, x):
    from torch.utils._python_dispatch import TorchDispatchMode

    sizes = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func is torch.ops.aten._to_copy.default and out.dtype == torch.bfloat16:
                sizes.append(out.nbytes)
            return out

    with Watch(), torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
    return sum(sizes)


# === mutant: matrices_only -> weights-only
def cache_bytes(model, x):
    from torch.utils._python_dispatch import TorchDispatchMode

    copies = {}

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func is torch.ops.aten._to_copy.default and args[0].requires_grad:
                if args[0].is_leaf and args[0].ndim > 1:
                    copies[id(args[0])] = out.nbytes
            return out

    with Watch(), torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
    return sum(copies.values())


# === mutant: size_of_the_weights -> bytes-of-the-original
def cache_bytes(model, x):
    from torch.utils._python_dispatch import TorchDispatchMode

    trained, cast = {id(p): p for p in model.parameters() if p.requires_grad}, set()

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func is torch.ops.aten._to_copy.default and id(args[0]) in trained:
                cast.add(id(args[0]))
            return out

    with Watch(), torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
    return sum(trained[key].nbytes for key in cast)


# === mutant: hooks_at_each_call -> counted-at-each-use
def cache_bytes(model, x):
    total = 0

    def note(layer, *_):
        nonlocal total
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            for p in layer.parameters():
                if p.requires_grad and p.dtype == torch.float32:
                    total += 2 * p.numel()

    for layer in model.modules():
        layer.register_forward_hook(note)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
    return total


# === mutant: layers_by_type -> unused-counted
def cache_bytes(model, x):
    seen = {}
    for layer in model.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            for p in layer.parameters():
                if p.requires_grad and p.dtype == torch.float32:
                    seen[id(p)] = 2 * p.numel()
    return sum(seen.values())


# === mutant: what_autograd_saves -> saved-for-backward
def cache_bytes(model, x):
    saved = {}

    def pack(tensor):
        if tensor.dtype == torch.bfloat16:
            saved[tensor.data_ptr()] = tensor.nbytes
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(x)
    return sum(saved.values())


# === mutant: leaves_its_hooks_behind -> changed-argument
def cache_bytes(model, x):
    used = set()

    def note(layer, *_):
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            used.update(layer.parameters())

    for layer in model.modules():
        layer.register_forward_hook(note)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
    return sum(2 * p.numel() for p in used if p.requires_grad and p.dtype == torch.float32)


# === correct: hooks_and_a_set
def cache_bytes(model, x):
    used = set()

    def note(layer, *_):
        if isinstance(layer, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)):
            used.update(layer.parameters())

    handles = [layer.register_forward_hook(note) for layer in model.modules()]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
    for handle in handles:
        handle.remove()
    return sum(2 * p.numel() for p in used if p.requires_grad and p.dtype == torch.float32)


# === correct: the_courses_own
def cache_bytes(model, x):
    from amp_lessons.memory import training_memory

    return training_memory(model, x, precision="amp bf16").cast_cache


# === correct: profiler_free_by_storage
def cache_bytes(model, x):
    from torch.utils._python_dispatch import TorchDispatchMode

    kept = {}

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if "_to_copy" in str(func):
                source = args[0]
                if source.is_leaf and source.requires_grad and source.dtype == torch.float32:
                    kept[source.data_ptr()] = out
            return out

    with torch.autocast("cpu", dtype=torch.bfloat16), Watch():
        model(x)
    return sum(t.numel() * t.element_size() for t in kept.values())


# === correct: walks_the_graph
def cache_bytes(model, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(x)
    found, seen, nodes = {}, set(), [output.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for source, _ in node.next_functions:
            if "ToCopy" in node.name() and hasattr(source, "variable"):
                found[id(source.variable)] = 2 * source.variable.numel()
            nodes.append(source)
    return sum(found.values())
