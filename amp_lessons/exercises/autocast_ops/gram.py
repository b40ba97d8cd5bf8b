# %% statement points=2 minutes=10
# # Keep one fragile op in FP32
#
# Write `gram(x, weight)`. It computes the features `F.linear(x, weight)`, and returns the matrix of
# all their inner products, `features @ features.T`.
#
# Your function is called inside somebody's autocast region, on a CPU or on CUDA (the check needs no
# GPU for that), in float16 or bfloat16, or with no region open. The linear layer should run in the
# region's dtype. The inner products reach many millions, so compute and return them in float32 (not
# in float64, which most GPUs are slow at). After the call the region must be as it was.

# %% answer
def gram(x, weight):
    """The inner products of the features F.linear(x, weight), in float32."""
    ### BEGIN SOLUTION
    features = F.linear(x, weight)
    with torch.autocast(x.device.type, enabled=False):
        features = features.float()
        return features @ features.T
    ### END SOLUTION

# %% hints
# - You can open a disabled region inside one: `with torch.autocast(device_type, enabled=False)`.
# - Nothing is cast in there any more, so you have to cast the 16-bit features yourself.
# - The device type is `x.device.type`.

# %% probe
from amp_lessons.exercises.autocast_ops.harness import gram_cases, play_gram

probe = Probe(gram_cases, play=play_gram)

# %% judge
def tell(case, right, seen):
    value = seen["value"]
    for key, words in value["dict"].items() if is_dict(value) else ():
        return f"{case.label}: {key}: {words}"
    if not isinstance(value, str):
        return line("gram", case, right, seen, within(1e-6))
    wanted = right["value"] if isinstance(right["value"], str) and " of " in value else "float32"
    return f"{case.label}: returned {value}; expected {wanted}"

def noted(key, words):
    """A rule: what the caller's region is like after the call, or what was computed in."""
    return lambda seen, right: is_dict(seen.get("value")) and seen["value"]["dict"] == {key: words}

judge = Judge(same=within(1e-6), asked_for="a float32 tensor", tell=tell)

# %% passed
# It takes two things: autocast off for the product, and features that you cast to float32.

# %% right sums_of_products
def gram(x, weight):
    features = F.linear(x, weight).float()
    return (features.unsqueeze(0) * features.unsqueeze(1)).sum(-1)

# %% right decorated
def gram(x, weight):
    @torch.autocast(x.device.type, enabled=False)
    def inner(f):
        return torch.mm(f, f.t())

    return inner(torch.nn.functional.linear(x, weight).float())

# %% rule autocast-left-off
# Autocast is still off when your function returns, so the rest of the caller's region runs in
# float32. Use a block, `with torch.autocast(..., enabled=False)`: it puts autocast back.
breaks = noted("autocast after the call", "off; expected on")
unwrap("with") & put("torch.set_autocast_enabled(x.device.type, False)", before="return")

# %% rule region-changed
# Autocast is not as it was when your function returns. It is on where it was off, or has another
# dtype or cache setting. A block, `with torch.autocast(..., enabled=False)`, puts all three back.
breaks = noted("autocast after the call", "not as it was")
put("torch.set_autocast_dtype(x.device.type, torch.float32)", before="with")
of("sums_of_products", put("torch.set_autocast_cache_enabled(False)", before="return"))
put("torch.set_autocast_enabled(x.device.type, True)", before="with")

# %% rule in-float64
# You computed in float64. Autocast leaves float64 alone, so this avoids its cast, but most GPUs are
# many times slower in float64 than in float32. Switch autocast off and cast to float32.
breaks = noted("computed in", "float64; expected float32")
swap("float()", "double()") & swap("features @ features.T", "(features @ features.T).float()")

# %% rule cast-back
# You computed in float32 and cast back to 16 bits, where it is rounded. Return the float32 result.
def breaks(seen, right):
    return str(seen.get("value")).endswith("got float32, autocast was off)")
swap("features @ features.T", "(features @ features.T).to(x.dtype)")

# %% wrong cast-only
# You cast to float32, and the product casts back: it is on the lower-precision list, so inside the
# region its inputs become 16 bit whatever they were. Switch autocast off for the product too.
unwrap("with")
swap("enabled=False", "enabled=True")
unwrap("with") & swap("features @ features.T", 'torch.einsum("ik,jk->ij", features, features)')

# %% wrong region-only
# The features are still 16 bit: a disabled region casts nothing. Cast them to float32 as well.
drop("features = features.float()")
of("decorated", swap(".float()", ""))

# %% wrong cast-after
# You cast a 16-bit product, rounded or inf by then. Cast the features, and keep autocast off there.
drop("features = features") & swap("features @ features.T", "(features @ features.T).float()")
(unwrap("with") & swap("features.float()", "features / 1024") & swap("features @ features.T",
    "(features @ features.T).float() * 1024**2"))
of("decorated", swap("weight).float()", "weight)") & swap("f.t())", "f.t()).float()"))

# %% wrong all-in-float32
# The linear layer runs in float32 too. Only the product of the features with themselves is fragile.
# Let the linear layer run in the region's dtype, and switch autocast off after it.
drop("features =", nth=1) & swap("features.float()", "F.linear(x.float(), weight.float())")
drop("features =", nth=1) & swap("features.float()", "x.float() @ weight.float().T")
move("features =", nth=1, before="features = features")

# %% wrong one-device
# You named one device. Each has its own switch, and the other's is on. Use `x.device.type`.
swap("x.device.type", '"cpu"')
swap("x.device.type", '"cpu"') & swap("features @ features.T", "(features @ features.T).float()")
of("decorated", swap("x.device.type", '"cpu"') & swap("f.t())", "f.t()).float()"))

# %% wrong as-it-was
# The product still runs in 16 bits. Switch autocast off for it, and cast the features to float32.
unwrap("with") & drop("features = features")
unwrap("with") & drop("features = features") & swap("features.T", "features.mT")

# %% wrong other-gram
# You multiplied `features.T` with `features`. That compares the columns. The inner products of the
# rows are `features @ features.T`, one row and one column for each row of `x`.
swap("features @ features.T", "features.T @ features")
of("decorated", swap("f, f.t()", "f.t(), f"))

# %% wrong wrong-value
swap("features @ features.T", "torch.diag((features @ features.T).diagonal())")
