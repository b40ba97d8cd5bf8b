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


# === mutant: clears_all_hooks -> hooks-lost
def dtype_offenders(model, x, expected, region):
    seen = {p: [] for p in expected}
    for path in expected:
        model.get_submodule(path).register_forward_hook(
            lambda m, i, o, path=path: seen[path].append((o[0] if isinstance(o, tuple) else o).dtype))
    with torch.autocast("cpu", dtype=region):
        model(x)
    for m in model.modules():
        m._forward_hooks.clear()
    return {p: next((d for d in (seen[p] or [None]) if d != w)) for p, w in expected.items() if any(d != w for d in seen[p] or [None])}


# === mutant: mode_put_back_from_the_top -> mode-changed
def dtype_offenders(model, x, expected, region):
    was = model.training
    model.eval()
    seen = {p: [] for p in expected}
    hs = [model.get_submodule(path).register_forward_hook(
            lambda m, i, o, path=path: seen[path].append((o[0] if isinstance(o, tuple) else o).dtype)) for path in expected]
    with torch.no_grad(), torch.autocast("cpu", dtype=region):
        model(x)
    for h in hs:
        h.remove()
    model.train(was)
    return {p: next((d for d in (seen[p] or [None]) if d != w)) for p, w in expected.items() if any(d != w for d in seen[p] or [None])}


# === mutant: region_left_open -> region-left-open
def dtype_offenders(model, x, expected, region):
    seen = {p: [] for p in expected}
    hs = [model.get_submodule(path).register_forward_hook(
            lambda m, i, o, path=path: seen[path].append((o[0] if isinstance(o, tuple) else o).dtype)) for path in expected]
    torch.set_autocast_dtype("cpu", region)
    torch.set_autocast_enabled("cpu", True)
    model(x)
    for h in hs: h.remove()
    return {p: next((d for d in (seen[p] or [None]) if d != w)) for p, w in expected.items() if any(d != w for d in seen[p] or [None])}


# === mutant: requires_grad_off -> parameters-changed
def dtype_offenders(model, x, expected, region):
    model.requires_grad_(False)
    seen = {p: [] for p in expected}
    hs = [model.get_submodule(path).register_forward_hook(
            lambda m, i, o, path=path: seen[path].append((o[0] if isinstance(o, tuple) else o).dtype)) for path in expected]
    with torch.autocast("cpu", dtype=region):
        model(x)
    for h in hs: h.remove()
    return {p: next((d for d in (seen[p] or [None]) if d != w)) for p, w in expected.items() if any(d != w for d in seen[p] or [None])}


# === mutant: runs_once_per_path -> ran-several-times
def dtype_offenders(model, x, expected, region):
    out = {}
    for path, want in expected.items():
        seen = []
        h = model.get_submodule(path).register_forward_hook(lambda m, i, o: seen.append((o[0] if isinstance(o, tuple) else o).dtype))
        with torch.autocast("cpu", dtype=region):
            model(x)
        h.remove()
        bad = [d for d in seen if d != want]
        if bad or not seen:
            out[path] = bad[0] if bad else None
    return out


# === mutant: removes_in_the_hook -> hooks-left
def dtype_offenders(model, x, expected, region):
    seen, hs = {p: None for p in expected}, {}
    def make(path):
        def hook(m, i, o):
            o = o[0] if isinstance(o, tuple) else o
            seen[path] = o.dtype
            hs[path].remove()
        return hook
    for p in expected:
        hs[p] = model.get_submodule(p).register_forward_hook(make(p))
    with torch.autocast("cpu", dtype=region):
        model(x)
    return {p: d for p, d in seen.items() if d != expected[p]}


# === correct: ordered_dict
from collections import OrderedDict, defaultdict
from contextlib import ExitStack


def dtype_offenders(model, x, expected, region):
    seen = defaultdict(list)
    with ExitStack() as stack:
        for path in expected:
            def hook(module, args, output, path=path):
                seen[path].append((output if torch.is_tensor(output) else output[0]).dtype)
            handle = model.get_submodule(path).register_forward_hook(hook)
            stack.callback(handle.remove)
        stack.enter_context(torch.autocast("cpu", dtype=region))
        model(x)
    out = OrderedDict()
    for path, want in expected.items():
        wrong = [d for d in seen[path] if d != want]
        if wrong:
            out[path] = wrong[0]
        elif not seen[path]:
            out[path] = None
    return out


# === correct: a_deep_copy
import copy
import functools


def dtype_offenders(model, x, expected, region):
    twin = copy.deepcopy(model)
    record = {path: [] for path in expected}

    def look(path, module, args, output):
        first = next(t for t in output if torch.is_tensor(t)) if isinstance(output, tuple) else output
        record[path].append(first.dtype)

    for path, module in twin.named_modules():
        if path in record:
            module.register_forward_hook(functools.partial(look, path))
    with torch.inference_mode(), torch.autocast(device_type="cpu", dtype=region):
        twin(x)
    verdict = {}
    for path in expected:
        if not record[path]:
            verdict[path] = None
        for d in record[path]:
            if d is not expected[path]:
                verdict.setdefault(path, d)
    return verdict
