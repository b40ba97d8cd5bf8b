# %% statement points=2 minutes=15
# # Which gradients has the compiler changed?
#
# You have compiled a training step. The loss is what it was, so nothing tells you whether the
# gradients are, too.
#
# Write `changed_gradients(model, eager, compiled, batch, tolerance)`. It compares the gradients of
# one batch, and returns the names of the parameters whose gradients differ, in the order of
# `model.named_parameters()`.
#
# - `eager(batch)` and `compiled(batch)` run `model` and return the loss. Call each once, and
#   compute the gradients of its loss. (In the check, `compiled` is a stand-in for such a step.)
# - The model has dropout, so both calls must draw the same random numbers.
# - A gradient differs if the norm of the difference is larger than `tolerance` times the norm of
#   eager's gradient. Gradients may have any size, also below 1e-8.
# - A gradient with an inf or a NaN always differs. So does one that only one of the steps has. If a
#   parameter gets no gradient in both, or zeros in both, it doesn't differ.
# - The parameters hold no gradients when you begin, and must hold none at the end.

# %% answer
def changed_gradients(model, eager, compiled, batch, tolerance):
    """The names of the parameters whose gradients differ between the two steps."""
    ### BEGIN SOLUTION
    state = torch.get_rng_state()
    found = []
    for step in (eager, compiled):
        torch.set_rng_state(state)
        step(batch).backward()
        found.append({name: p.grad for name, p in model.named_parameters()})
        model.zero_grad()
    changed = []
    for name, wanted in found[0].items():
        got = found[1][name]
        if wanted is None or got is None:
            differs = wanted is not got
        else:
            differs = not (got - wanted).norm() <= tolerance * wanted.norm()
        if differs:
            changed.append(name)
    return changed
    ### END SOLUTION

# %% hints
# - You compare two lists of gradients. Does each still hold what you think after the second
#   `backward()`?
# - Before each of the two calls, set the random state to the same value.
# - What is `float("nan") > 0.1`? Ask the opposite question: is the difference small enough?

# %% probe
from amp_lessons.exercises.compile_and_checkpoint.harness_gradients import (
    gradient_cases,
    play_gradients,
)

probe = Probe(gradient_cases, play=play_gradients)

# %% judge
judge = Judge(asked_for="a list of names")

# %% passed
# Such a comparison of one batch takes seconds. It finds what neither the loss nor a scaler shows.

# %% right without_grad_fields
def changed_gradients(model, eager, compiled, batch, tolerance):
    names, weights = zip(*model.named_parameters(), strict=True)

    def gradients(step):
        with torch.random.fork_rng(devices=[]):
            return torch.autograd.grad(step(batch), weights, allow_unused=True)

    def differs(one, other):
        if one is None and other is None:
            return False
        if one is None or other is None:
            return True
        off = torch.linalg.vector_norm(other - one)
        allowed = tolerance * torch.linalg.vector_norm(one)
        return bool(off > allowed or off.isnan() or allowed.isinf())

    both = zip(names, gradients(eager), gradients(compiled), strict=True)
    return [name for name, one, other in both if differs(one, other)]

# %% right seeded_and_cloned
def changed_gradients(model, eager, compiled, batch, tolerance):
    seen = []
    for run in [eager, compiled]:
        torch.manual_seed(17)
        run(batch).backward()
        seen.append([None if p.grad is None else p.grad.clone() for p in model.parameters()])
        for p in model.parameters():
            p.grad = None
    names = []
    for (name, _), e, c in zip(model.named_parameters(), *seen, strict=True):
        if (e is None) != (c is None):
            names.append(name)
        elif e is not None:
            finite = e.isfinite().all() and c.isfinite().all()
            if not finite or (c - e).pow(2).sum().sqrt() > tolerance * e.pow(2).sum().sqrt():
                names.append(name)
    return names

# %% right divided
def changed_gradients(model, eager, compiled, batch, tolerance):
    before = torch.random.get_rng_state()
    eager(batch).backward()
    expected = {}
    for name, p in model.named_parameters():
        expected[name], p.grad = p.grad, None
    torch.random.set_rng_state(before)
    compiled(batch).backward()
    result = []
    for name, p in model.named_parameters():
        e, c = expected[name], p.grad
        p.grad = None
        if e is None and c is None:
            continue
        e = torch.full_like(p, math.nan) if e is None else e.double()
        c = torch.full_like(p, math.nan) if c is None else c.double()
        if torch.equal(e, c):
            continue
        ratio = ((c - e).norm() / e.norm()).item()
        if math.isnan(ratio) or ratio > tolerance:
            result.append(name)
    return result

# %% rule attribute-of-none
# A parameter can have no gradient: then `.grad` is None. Look for None before you compute with it.
def breaks(seen, right):
    message = str(seen.get("error", {}).get("message"))
    unused = "appears to not have been used in the graph" in message
    return "NoneType" in message or unused
swap("wanted is None or got is None", "wanted is got")
of("without_grad_fields", swap(", allow_unused=True", ""))
of("seeded_and_cloned", swap("None if p.grad is None else ", ""))

# %% rule no-gradients
# You compare losses, and compute no gradients. Both steps have the same loss here: it is the
# backward pass that may differ. Call `backward()` on both losses.
def breaks(seen, right):
    return noted(seen, "steps whose gradients were computed") == 0
put("if torch.isclose(eager(batch), compiled(batch)): return []", before="state = ")
drop("step(batch)")

# %% rule dropout-off
# You switched dropout off, or left the model in `eval()`. Compare the model as you train it, and
# set the random state before each call.
def breaks(seen, right):
    return noted(seen, "dropout") == "off"
put("model.eval()", before="state = ") & drop("torch.set_rng_state")
put("model.eval()", before="return changed")

# %% rule gradients-left
# The parameters still hold gradients when you return. Set them to None, so that the next training
# step doesn't add to them.
def breaks(seen, right):
    return noted(seen, "gradients left on the model") == "some"
of("divided", drop("p.grad = None"))
wrap("if step is eager:", "model.zero_grad()")
put("eager(batch).backward()", before="return changed")

# %% rule not-names
# Your list holds other things than names. Return the names that `model.named_parameters()` gives.
def breaks(seen, right):
    return noted(seen, "names") == "not only names"
swap("changed.append(name)", "changed.append((name, got))")
of("without_grad_fields", swap("[name for name", "[other for name"))

# %% wrong other-random-numbers
# Dropout drew other numbers in the second call, so most gradients differ. Keep the random state
# with `torch.get_rng_state()`, and set it before each call.
drop("torch.set_rng_state")
of("divided", drop("torch.random.set_rng_state"))
of("without_grad_fields", unwrap("with torch"))

# %% wrong the-same-tensors
# You compare each gradient with itself. A list of `p.grad` holds the tensors that the second
# `backward()` adds to. Clone them, and set the gradients to None before the second call.
swap("model.zero_grad()", "model.zero_grad(set_to_none=False)") & put("model.zero_grad()",
    before="return changed")
drop("model.zero_grad") & put("model.zero_grad()", before="return changed")
of("seeded_and_cloned", swap("None if p.grad is None else p.grad.clone()", "p.grad") &
    move("for p in model.parameters()", after="names = []"))
of("divided", swap("expected[name], p.grad = p.grad, None", "expected[name] = p.grad"))

# %% wrong not-cleared
# The second `backward()` added to the gradients of the first. Set them to None in between.
of("seeded_and_cloned", move("for p in model.parameters()", after="names = []"))
(swap("p.grad for name", "p.grad if p.grad is None else p.grad.clone() for name") &
    drop("model.zero_grad") & put("model.zero_grad()", before="return changed"))

# %% wrong nan-lets-it-pass
# You miss a NaN or an inf. A comparison with NaN is False, and so is `difference > allowed`. Ask
# whether the difference is small enough, or look for `isfinite()` first.
swap("not (got - wanted).norm() <= tolerance", "(got - wanted).norm() > tolerance")
of("without_grad_fields", swap(" or off.isnan() or allowed.isinf()", ""))
of("seeded_and_cloned", swap("not finite or ", ""))
swap("not (got - wanted).norm() <= tolerance * wanted.norm()",
    "not (got - wanted).nan_to_num().norm() <= tolerance * wanted.norm()")
of("seeded_and_cloned", swap("not finite", "c.isinf().any()"))

# %% wrong absolute-part
# A part of your tolerance doesn't depend on the size of the gradient: `torch.allclose` adds 1e-8
# unless you pass `atol`, and `assert_close` 1e-5. Gradients below may then be wrong altogether.
# Compare the norm of the difference with that of the gradient.
swap("not (got - wanted).norm() <= tolerance * wanted.norm()",
    "not torch.allclose(got, wanted, rtol=tolerance, atol=1e-5)")
of("without_grad_fields", put("return not torch.allclose(other, one, tolerance, 1e-5)",
    before="off = "))
of("without_grad_fields", put("return not torch.allclose(other, one, tolerance, 1e-6)",
    before="off = "))
swap("not (got - wanted).norm() <= tolerance * wanted.norm()",
    "not torch.allclose(got, wanted, rtol=1e-3, atol=1e-5)")
swap("not (got - wanted).norm() <= tolerance * wanted.norm()",
    "not torch.allclose(got, wanted, rtol=tolerance)")
of("without_grad_fields", put("return not torch.allclose(other, one, rtol=tolerance)",
    before="off = "))
swap("not (got - wanted).norm() <= tolerance * wanted.norm()", "not torch.allclose(got, wanted)")

# %% wrong absolute-tolerance
# You compare the difference with `tolerance` itself. Small gradients may then be wrong altogether,
# and large ones differ by a rounding. Multiply the tolerance by the norm of eager's gradient.
swap("tolerance * wanted.norm()", "tolerance")
swap("not (got - wanted).norm() <= tolerance * wanted.norm()",
    "not torch.allclose(got, wanted, rtol=0, atol=tolerance)")
of("without_grad_fields", swap("tolerance * torch.linalg.vector_norm(one)", "torch.tensor("
    "tolerance)"))
of("seeded_and_cloned", swap("(c - e).pow(2).sum().sqrt()", "(c - e).abs().max()") &
    swap("tolerance * e.pow(2).sum().sqrt()", "tolerance"))

# %% wrong size-from-one-on
# Your allowed difference is never below `tolerance`, whatever the size of the gradient. Gradients
# that are far below 1 may then be wrong altogether. Take the norm of eager's gradient alone.
swap("tolerance * wanted.norm()", "tolerance * max(1, wanted.norm())")
swap("tolerance * wanted.norm()", "tolerance * (1 + wanted.norm())")
of("divided", swap("/ e.norm()", "/ e.norm().clamp(min=1.0)"))
of("divided", swap("/ e.norm()", "/ (1 + e.norm())"))

# %% wrong small-number-added
# You add a small number to the norm, such as 1e-8, against a division by 0. It is larger than some
# gradients. Don't divide: multiply the tolerance by the norm.
of("divided", swap("/ e.norm()", "/ (e.norm() + 1e-8)"))
of("divided", swap("/ e.norm()", "/ e.norm().clamp(min=1e-8)"))
swap("tolerance * wanted.norm()", "tolerance * (wanted.norm() + 1e-8)")

# %% wrong exactly-equal
# You ask for equal bits. A compiler may add in another order, which rounds in another way. Allow
# for a difference of `tolerance` times the norm.
swap("not (got - wanted).norm() <= tolerance * wanted.norm()", "not torch.equal(got, wanted)")
of("seeded_and_cloned", swap("(c - e).pow(2).sum().sqrt() > tolerance * e.pow(2).sum().sqrt()",
    "(c != e).any()"))

# %% wrong element-by-element
# You compare each element with its own size. An element near 0 may be off by more than itself, if
# others are large. Compare the norm of the difference with the norm of the gradient.
swap("not (got - wanted).norm() <= tolerance * wanted.norm()",
    "not ((got - wanted).abs() <= tolerance * wanted.abs()).all()")
of("without_grad_fields", put("return not torch.allclose(other, one, rtol=tolerance, atol=0)",
    before="off = "))
of("seeded_and_cloned", swap("(c - e).pow(2).sum().sqrt() > tolerance * e.pow(2).sum().sqrt()",
    "((c - e) / e).nan_to_num().abs().max() > tolerance"))
of("seeded_and_cloned", swap("(c - e).pow(2).sum().sqrt() > tolerance * e.pow(2).sum().sqrt()",
    "((c - e).abs() / (e.abs() + 1e-12)).mean() > tolerance"))

# %% wrong norms-compared
# You compare the norms of the two gradients. A gradient that points the other way has the same
# norm. Take the norm of the difference.
swap("(got - wanted).norm()", "(got.norm() - wanted.norm()).abs()")
of("without_grad_fields", swap("torch.linalg.vector_norm(other - one)",
    "abs(torch.linalg.vector_norm(other) - torch.linalg.vector_norm(one))"))

# %% wrong all-in-one-norm
# You compare each difference with the norm of all gradients together. A layer with small gradients
# may then be wrong altogether. Take each parameter by itself.
(swap("tolerance * wanted.norm()", "tolerance * total") & put("total = torch.stack([g.norm() for g"
    " in found[0].values() if g is not None]).norm()", before="changed = []"))
(swap("tolerance * wanted.norm()", "tolerance * total") & put("total = math.sqrt(sum(float((g * g)"
    ".sum()) for g in found[0].values() if g is not None))", before="changed = []"))

# %% wrong all-or-nothing
# You compare all gradients in one norm, and return all names or none. Compare each parameter by
# itself: the norm of a small gradient hardly counts in that of all.
(put("pairs = [(g, found[1][n]) for n, g in found[0].items() if g is not None]\n"
    "off = torch.stack([g.norm() if c is None else (c - g).norm() for g, c"
    " in pairs]).norm()\nsize = torch.stack([g.norm() for g, c in pairs]).norm()\n"
    "if off <= tolerance * size: return []", before="changed = []") &
    swap("if differs", "if wanted is not None"))
of("seeded_and_cloned", put("off = sum(((0 if c is None else c) - e).pow(2).sum() for e, c in"
    " zip(*seen) if e is not None).sqrt()\n"
    "size = sum(e.pow(2).sum() for e in seen[0] if e is not None).sqrt()\n"
    "if off / size <= tolerance: return []\n"
    "return [n for (n, _), e in zip(model.named_parameters(), seen[0]) if e is not None]",
    before="names = []"))

# %% wrong negative-missed
# You look at the largest difference and miss the negative ones. Take the norm of the difference.
swap("(got - wanted).norm() <= tolerance", "(got - wanted).max() <= tolerance")
of("without_grad_fields", swap("torch.linalg.vector_norm(other - one)", "(other - one).max()"))

# %% wrong signs-cancel
# You add up the differences, and those with other signs cancel. Take the norm of the difference.
swap("(got - wanted).norm() <= tolerance", "(got - wanted).sum().abs() <= tolerance")
of("without_grad_fields", swap("torch.linalg.vector_norm(other - one)", "abs((other - one).sum())"))
of("seeded_and_cloned", swap("(c - e).pow(2).sum().sqrt()", "abs(c.sum() - e.sum())"))

# %% wrong angle-compared
# You compare directions. A gradient that is twice as long has the same direction. Take the norm of
# the difference.
swap("(got - wanted).norm() <= tolerance * wanted.norm()",
    "1 - torch.cosine_similarity(got.flatten(), wanted.flatten(), 0) <= tolerance")
of("without_grad_fields", put("alike = nn.CosineSimilarity(dim=0)(other.view(-1), one.view(-1))\n"
    "return bool(alike.isnan() or alike < 1 - tolerance)", before="off = "))

# %% wrong missing-not-seen
# You leave out a parameter that gets a gradient from one step alone. That step doesn't train it.
swap("differs = wanted is not got", "differs = False")
of("without_grad_fields", swap("return True", "return False"))

# %% wrong both-without
# You report a parameter that gets no gradient in either step. There is nothing to differ.
swap("differs = wanted is not got", "differs = True")
of("without_grad_fields", swap("return False", "return True"))

# %% wrong zeros-reported
# You report a gradient that is 0 in both steps. 0/0 is NaN, and 0 < 0 is False. Multiply the
# tolerance by the norm, and compare with `<=`.
swap("<= tolerance", "< tolerance")
of("divided", wrap("if False:", "continue", nth=2))

# %% wrong another-order
# The names are right, and their order isn't. Go through `model.named_parameters()`.
swap("return changed", "return sorted(changed)")
of("without_grad_fields", swap("return [name", "return sorted([name") & swap("(one, other)]",
    "(one, other)])"))

# %% wrong biases-left-out
# You compare the weights and leave out the biases. A bias has a gradient that can be wrong, too.
swap("if differs:", "if differs and not name.endswith('bias'):")
of("without_grad_fields", swap("if differs(one, other)]", "if differs(one, other) and 'bias' not in"
    " name]"))

# %% rule returned-none
def breaks(seen, right):
    return noted(seen, "returned") == "NoneType"
drop("return changed")
