# %% statement points=2 minutes=15
# # Assert the dtypes of a model
#
# Write `dtype_offenders(model, x, expected, region)`. It runs `model(x)` once under CPU autocast to
# `region`, and reports the modules whose output doesn't have the expected dtype.
#
# `expected` is a dict from a module's path, such as `"0.body.0"`, to a dtype. Return a dict from
# the path of each offender to the dtype that was seen.
#
# - If a module returns a tuple, look at its first tensor.
# - If a module runs several times, report the first dtype that isn't the expected one.
# - A module that didn't run at all is an offender too: report `None`.
# - A model can hold one layer under two paths, as with tied weights. `expected` may name either.
#
# Leave the model as it was: without your hooks, and with each module in the mode it was in.

# %% answer
def dtype_offenders(model, x, expected, region):
    """A dict {path: dtype seen} of the modules that do not give the expected dtype."""
    ### BEGIN SOLUTION
    seen = {path: [] for path in expected}

    def watch(path):
        def hook(module, args, output):
            first = output[0] if isinstance(output, tuple) else output
            seen[path].append(first.dtype)

        return model.get_submodule(path).register_forward_hook(hook)

    handles = [watch(path) for path in expected]
    try:
        with torch.autocast("cpu", dtype=region):
            model(x)
    finally:
        for handle in handles:
            handle.remove()

    offenders = {}
    for path, dtype in expected.items():
        wrong = [d for d in seen[path] or [None] if d is not dtype]
        if wrong:
            offenders[path] = wrong[0]
    return offenders
    ### END SOLUTION

# %% hints
# - `module.register_forward_hook(hook)` calls `hook(module, args, output)` after each forward pass,
#   and returns a handle with a method `remove()`.
# - A hook must know its path. Make the hook in a function that takes the path, or give it the path
#   as a default argument. A function that is made in a loop sees the loop's last path.
# - Keep a list of dtypes for each path. If it is still empty afterwards, the module did not run.

# %% probe
from amp_lessons.exercises.autocast_ops.harness_models import offender_cases, play_offenders

probe = Probe(offender_cases, play=play_offenders)

# %% judge
def tell(case, right, seen):
    """What was done to the model, or where the reports differ."""
    if isinstance(seen["value"], str):
        return f"{case.label}: {seen['value']}"
    if not is_dict(seen["value"]):
        return line("dtype_offenders", case, right, seen, same)
    wanted, got = right["value"]["dict"], seen["value"]["dict"]
    for path in [*wanted, *got]:
        if path not in got or path not in wanted or got[path] != wanted[path]:
            gave = describe(wanted[path]) if path in wanted else "the expected dtype"
            words = describe(got[path]) if path in got else "nothing"
            did = "did not run" if gave == "None" else f"gave {gave}"
            return f"{case.label}: you report {words} for {path!r}, which {did}"
    return case.label

def same(expected, seen):
    return seen == expected  # also no path too many

def noted(words):
    """A rule: this was done to the model."""
    return lambda seen, right: seen.get("value") == words

judge = Judge(same=same, asked_for="a dict from path to dtype", tell=tell)

# %% passed
# Write `assert not dtype_offenders(...)` in a test: it tells you when a dtype changes.

# %% right forwards_replaced_and_put_back
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

# %% right one_hook_for_all
def dtype_offenders(model, x, expected, region):
    calls = []
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda module, args, out: calls.append((module, out[0] if type(out) is tuple else out))
    )
    with handle, torch.inference_mode(), torch.autocast(device_type="cpu", dtype=region):
        model(x)
    found = {}
    for path, want in expected.items():
        dtypes = [t.dtype for module, t in calls if module is model.get_submodule(path)]
        for dtype in dtypes or [None]:
            if dtype is not want:
                found.setdefault(path, dtype)
    return found

# %% rule ran-several-times
# You ran the model more than once, which changes a BatchNorm. Hook all modules, and run it once.
breaks = noted("the model ran more than once")
swap("model(x)", "[model(x) for path in expected]")

# %% rule hooks-left
# Your hooks, or your own `forward`, are still on the model when the function returns. They would
# run at every later step. Remove all of them, also those of modules that did not run.
breaks = noted("hooks are left on the model")
put("handles.pop().remove()", before="for handle") & drop("for handle in")
of("forwards_replaced_and_put_back", drop("for module in"))

# %% rule hooks-lost
# You removed a hook that was on the model before. Remove only those that you registered.
breaks = noted("a hook that was on the model before is gone")
put("for m in model.modules(): m._forward_hooks.clear()", before="offenders =")

# %% rule mode-changed
# The model comes back in another mode. `eval()` and `train()` also change the parts that were in
# another mode than the rest. To look at dtypes, you don't need to change any.
breaks = noted("a module is in another mode")
put("model.eval()", before="seen =")
put("model.eval()", before="seen =") & put("model.train()", before="offenders =")

# %% rule parameters-changed
# The parameters are not what they were, or their dtype, or their `requires_grad`. Change nothing.
breaks = noted("the parameters are not as they were")
put("model.requires_grad_(False)", before="seen =")
put("model.to(region).float()", before="seen =")

# %% rule region-left-open
# Autocast is still on after the call, so the caller's ops are cast too. A `with` block ends itself.
breaks = noted("autocast is on after the call")
(unwrap("with") & put('torch.set_autocast_enabled("cpu", True)', before="model(x)") &
    put('torch.set_autocast_dtype("cpu", region)', before="model(x)"))

# %% rule names-not-dtypes
# You reported dtypes as text. Report each dtype itself, such as `torch.float16`.
def breaks(seen, right):
    value = seen.get("value")
    return is_dict(value) and any(isinstance(dtype, str) for dtype in value["dict"].values())
swap("= wrong[0]", "= str(wrong[0])")

# %% wrong parameters-not-outputs
# You looked at the parameters, which stay float32. Use a forward hook to see what a module returns.
swap("seen[path] or [None]", "[p.dtype for p in model.get_submodule(path).parameters()]")

# %% program asks_the_weights_alone
def dtype_offenders(model, x, expected, region):
    dtypes = {p: {w.dtype for w in model.get_submodule(p).parameters()} for p in expected}
    return {p: next(iter(d)) for p, d in dtypes.items() if d and expected[p] not in d}

# %% wrong inputs-not-outputs
# You looked at what goes into a layer. It returns another dtype: look at a hook's third argument.
swap("first.dtype", "args[0].dtype")
swap("def hook(module, args, output):", "def hook(module, output, _):")

# %% wrong no-region
# You ran the model without autocast. Open the region around the call of the model.
unwrap("with torch.autocast")
swap("dtype=region", "dtype=region, enabled=False")

# %% wrong children-only
# You watched the outermost modules only, and `"0.body.0"` lies deeper. `get_submodule(path)` and
# `named_modules()` reach all of them; `named_children()` does not.
swap("for path in expected]", "for path, _ in model.named_children() if path in expected]")
(swap("for path in expected]", "for path, _ in model.named_children() if path in expected]") &
    swap("seen[path] or [None]", "seen[path]"))
swap("for path in expected]", "for path in expected if '.' not in path]")
swap("for path in expected]", "for path in expected if hasattr(model, path)]")

# %% wrong one-path-for-a-layer
# The model holds one layer under two paths, and you found it under one of them: `named_modules()`
# lists it once, and a dict from module to name keeps one. `model.get_submodule(path)` finds both.
swap("model.get_submodule(path)", "dict(model.named_modules()).get(path, nn.Module())")
(put("path = {m: p for p, m in model.named_modules(remove_duplicate=False)}[module]",
    before="seen[path]") & swap("seen[path].append", "seen.setdefault(path, []).append"))
swap("for path in expected]", "for path, _ in model.named_modules() if path in expected]")

# %% wrong never-ran
# A module that didn't run is missing from your report. Report it with `None`: nothing was tested.
swap("seen[path] or [None]", "seen[path]")
of("forwards_replaced_and_put_back", swap("seen[p] or [None]", "seen[p]"))

# %% wrong nothing-reported
# Your report is empty for every model. Put each path that hasn't the expected dtype into a dict.
swap("if wrong:", "if not handles:")
put("expected = {}", before="seen =")

# %% wrong nothing-seen
# You report None for every module. Register your hooks before the call, on this very model's parts.
swap("seen[path] or [None]", "[None]")
drop("model(x)")

# %% wrong one-call-only
# A module can run several times, and you kept one dtype. Report the first that isn't as expected.
swap("seen[path].append(first.dtype)", "seen[path] = [first.dtype]")
swap("seen[path] or [None]", "seen[path][-1:] or [None]")
swap("seen[path].append(first.dtype)", "seen[path] = seen[path] or [first.dtype]")

# %% wrong tuple-not-opened
# A module such as a GRU returns a tuple, and a tuple has no dtype. Look at its first tensor.
swap("output[0] if isinstance(output, tuple) else output", "output")
swap("isinstance(output, tuple)", "isinstance(output, list)")

# %% wrong last-path-for-all
# All your hooks write under the last path. A function that is made in a loop looks up `path` when
# it is called, and then the loop is over. Give the hook a default argument, `path=path`.
swap("seen[path].append", "seen[list(expected)[-1]].append")
put("path = list(expected)[-1]", before="seen[path].append")

# %% wrong everything-reported
# You reported every module. The report should hold only those whose dtype isn't the expected one.
swap("if d is not dtype]", "]")
drop("wrong =") & put("wrong = seen[path] or [None]", before="if wrong")

# %% wrong expected-reported
# You reported the dtype that was expected. Report the dtype that was seen.
swap("wrong[0]", "dtype")
swap("offenders[path] = wrong[0]", "offenders |= {path: expected[path]}")

# %% wrong compared-with-the-region
# You compared with the region's dtype. `expected` says for each module which dtype it should give.
swap("if d is not dtype]", "if d is not region]")
put("dtype = region", before="wrong =")
