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
    from torch.utils._python_dispatch import TorchDispatchMode

    copies = {}

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func is torch.ops.aten._to_copy.default and args[0].requires_grad:
                if args[0].is_leaf:
                    copies[id(args[0])] = out.nbytes
            return out

    watch = Watch()
    model.register_forward_pre_hook(lambda *_: watch.__enter__() and None)
    model.register_forward_hook(lambda *_: watch.__exit__(None, None, None))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
    return sum(copies.values())


# === mutant: hooks_and_a_set -> known-layers-only
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


# === mutant: kept_by_shape -> wrong-value
def cache_bytes(model, x):
    from torch.utils._python_dispatch import TorchDispatchMode

    trained, copies = {id(p) for p in model.parameters() if p.requires_grad}, {}

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func is torch.ops.aten._to_copy.default and id(args[0]) in trained:
                copies[args[0].shape] = out.nbytes
            return out

    with Watch(), torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
    return sum(copies.values())


# === correct: copies_that_outlive_the_forward
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


# === correct: by_name_in_no_grad
def cache_bytes(model, x):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        kept = {}

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func.overloadpacket is torch.ops.aten._to_copy:
                names = [n for n, p in model.named_parameters() if p is args[0]]
                if names and args[0].requires_grad:
                    self.kept[names[0]] = out.element_size() * out.nelement()
            return out

    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16), Watch() as watch:
        model(x)
    return torch.tensor(list(watch.kept.values())).sum()
