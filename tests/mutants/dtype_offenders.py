# === mutant: asks_the_weights -> parameters-not-outputs
def dtype_offenders(model, x, expected, region):
    offenders = {}
    with torch.autocast("cpu", dtype=region):
        model(x)
        for path, want in expected.items():
            for p in model.get_submodule(path).parameters():
                if p.dtype != want:
                    offenders[path] = p.dtype
    return offenders


# === mutant: what_comes_in -> inputs-not-outputs
def dtype_offenders(model, x, expected, region):
    seen = {}

    def watch(path):
        def hook(module, args, output):
            seen.setdefault(path, []).append(args[0].dtype)

        return model.get_submodule(path).register_forward_hook(hook)

    handles = [watch(path) for path in expected]
    with torch.autocast("cpu", dtype=region):
        model(x)
    for handle in handles:
        handle.remove()
    found = {p: [d for d in seen.get(p, [None]) if d != want] for p, want in expected.items()}
    return {p: d[0] for p, d in found.items() if d}


# === mutant: forgot_the_region -> no-region
def dtype_offenders(model, x, expected, region):
    seen = {}

    def watch(path):
        def hook(module, args, output):
            output = output[0] if isinstance(output, tuple) else output
            seen.setdefault(path, []).append(output.dtype)

        return model.get_submodule(path).register_forward_hook(hook)

    handles = [watch(path) for path in expected]
    model(x)
    for handle in handles:
        handle.remove()
    found = {p: [d for d in seen.get(p, [None]) if d != want] for p, want in expected.items()}
    return {p: d[0] for p, d in found.items() if d}


# === mutant: first_level -> children-only
def dtype_offenders(model, x, expected, region):
    seen, handles = {}, []
    for name, child in model.named_children():

        def hook(module, args, output, name=name):
            output = output[0] if isinstance(output, tuple) else output
            seen.setdefault(name, []).append(output.dtype)

        handles.append(child.register_forward_hook(hook))
    with torch.autocast("cpu", dtype=region):
        model(x)
    for handle in handles:
        handle.remove()
    offenders = {}
    for path, want in expected.items():
        for dtype in seen.get(path, [None]):
            if dtype != want and path not in offenders:
                offenders[path] = dtype
    return offenders


# === mutant: first_level_and_silent -> children-only
def dtype_offenders(model, x, expected, region):
    offenders, handles = {}, []
    for name, child in model.named_children():
        if name in expected:

            def hook(module, args, output, name=name):
                output = output[0] if isinstance(output, tuple) else output
                if output.dtype != expected[name]:
                    offenders.setdefault(name, output.dtype)

            handles.append(child.register_forward_hook(hook))
    with torch.autocast("cpu", dtype=region):
        model(x)
    for handle in handles:
        handle.remove()
    return offenders


# === mutant: only_what_ran -> never-ran
def dtype_offenders(model, x, expected, region):
    offenders, handles = {}, []
    for name, child in model.named_modules():
        if name in expected:

            def hook(module, args, output, name=name):
                output = output[0] if isinstance(output, tuple) else output
                if output.dtype != expected[name]:
                    offenders.setdefault(name, output.dtype)

            handles.append(child.register_forward_hook(hook))
    with torch.autocast("cpu", dtype=region):
        model(x)
    for handle in handles:
        handle.remove()
    return offenders


# === mutant: last_one_wins -> one-call-only
def dtype_offenders(model, x, expected, region):
    seen = dict.fromkeys(expected)

    def watch(path):
        def hook(module, args, output):
            seen[path] = (output[0] if isinstance(output, tuple) else output).dtype

        return model.get_submodule(path).register_forward_hook(hook)

    handles = [watch(path) for path in expected]
    with torch.autocast("cpu", dtype=region):
        model(x)
    for handle in handles:
        handle.remove()
    return {path: dtype for path, dtype in seen.items() if dtype != expected[path]}


# === mutant: hooks_stay -> hooks-left
def dtype_offenders(model, x, expected, region):
    seen = {}

    def watch(path):
        def hook(module, args, output):
            first = output[0] if isinstance(output, tuple) else output
            seen.setdefault(path, []).append(first.dtype)

        model.get_submodule(path).register_forward_hook(hook)

    for path in expected:
        watch(path)
    with torch.autocast("cpu", dtype=region):
        model(x)
    found = {p: [d for d in seen.get(p, [None]) if d != want] for p, want in expected.items()}
    return {p: d[0] for p, d in found.items() if d}


# === mutant: names_only -> wrong-type
def dtype_offenders(model, x, expected, region):
    return list(expected)


# === mutant: closure_in_a_loop -> wrong-value
def dtype_offenders(model, x, expected, region):
    seen, handles = {p: [] for p in expected}, []
    for path in expected:

        def hook(module, args, output):
            first = output[0] if isinstance(output, tuple) else output
            seen[path].append(first.dtype)

        handles.append(model.get_submodule(path).register_forward_hook(hook))
    with torch.autocast("cpu", dtype=region):
        model(x)
    for handle in handles:
        handle.remove()
    found = {p: [d for d in seen[p] or [None] if d != want] for p, want in expected.items()}
    return {p: d[0] for p, d in found.items() if d}


# === mutant: forwards_replaced_for_good -> hooks-left
def dtype_offenders(model, x, expected, region):
    seen = {path: [] for path in expected}
    modules = {path: model.get_submodule(path) for path in expected}
    for path, module in modules.items():

        def spy(*args, path=path, forward=module.forward):
            out = forward(*args)
            seen[path].append((out if isinstance(out, torch.Tensor) else out[0]).dtype)
            return out

        module.forward = spy
    with torch.autocast("cpu", dtype=region):
        model(x)
    found = {p: [d for d in seen[p] or [None] if d != want] for p, want in expected.items()}
    return {p: d[0] for p, d in found.items() if d}


# === mutant: evaluates_and_leaves_it_so -> mode-changed
def dtype_offenders(model, x, expected, region):
    model.eval()
    seen = {}

    def watch(path):
        def hook(module, args, output):
            first = output[0] if isinstance(output, tuple) else output
            seen.setdefault(path, []).append(first.dtype)

        return model.get_submodule(path).register_forward_hook(hook)

    handles = [watch(path) for path in expected]
    with torch.no_grad(), torch.autocast("cpu", dtype=region):
        model(x)
    for handle in handles:
        handle.remove()
    found = {p: [d for d in seen.get(p, [None]) if d != want] for p, want in expected.items()}
    return {p: d[0] for p, d in found.items() if d}



# === correct: global_hook
def dtype_offenders(model, x, expected, region):
    from torch.nn.modules.module import register_module_forward_hook

    names = {module: name for name, module in model.named_modules()}
    calls = []

    def hook(module, args, output):
        first = output[0] if isinstance(output, (tuple, list)) else output
        calls.append((names[module], first.dtype))

    handle = register_module_forward_hook(hook)
    try:
        with torch.no_grad(), torch.autocast("cpu", dtype=region):
            model(x)
    finally:
        handle.remove()
    offenders = {}
    for path in expected:
        dtypes = [dtype for name, dtype in calls if name == path]
        if not dtypes:
            offenders[path] = None
        elif any(dtype != expected[path] for dtype in dtypes):
            offenders[path] = next(dtype for dtype in dtypes if dtype != expected[path])
    return offenders


# === correct: forwards_replaced_and_put_back
def dtype_offenders(model, x, expected, region):
    seen = {path: [] for path in expected}
    modules = {path: model.get_submodule(path) for path in expected}
    for path, module in modules.items():

        def spy(*args, path=path, forward=module.forward):
            out = forward(*args)
            seen[path].append((out if isinstance(out, torch.Tensor) else out[0]).dtype)
            return out

        module.forward = spy
    with torch.autocast("cpu", dtype=region):
        model(x)
    for module in modules.values():
        del module.forward
    found = {p: [d for d in seen[p] or [None] if d != want] for p, want in expected.items()}
    return {p: d[0] for p, d in found.items() if d}
