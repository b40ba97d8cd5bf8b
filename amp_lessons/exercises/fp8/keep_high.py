# %% statement points=2 minutes=15
# # The layers that stay in BF16
#
# You want to train a model in FP8, but not all of it. Write `keep_high(model)`. It returns the set
# of names of the linear layers that stay in BF16, as `in_block_format` takes them for `keep`:
#
# ```python
# in_block_format(model, recipe, keep=keep_high(model))
# ```
#
# A layer stays in BF16 if one of these holds:
#
# - One of its two sizes, `in_features` and `out_features`, is not a multiple of 16. FP8 products
#   on tensor cores need that.
# - It is the output head: the last part of its name is `lm_head`.
# - It is the router of a mixture of experts: the last part of its name is `gate` or `router`.
#
# All other linear layers are converted, so they aren't in the set. Norms and embeddings are no
# linear layers, and stay as they are anyway. Names are those of `model.named_modules()`, such as
# `layers.0.mlp.gate_proj`. Every layer here is an `nn.Linear` itself and not a subclass. Leave the
# model as it is.

# %% answer
def keep_high(model):
    """The names of the linear layers that stay in BF16, a set."""
    ### BEGIN SOLUTION
    names = set()
    for name, module in model.named_modules():
        if not isinstance(module, nn.Linear):
            continue
        last = name.split(".")[-1]
        odd = module.in_features % 16 != 0 or module.out_features % 16 != 0
        if odd or last in ("lm_head", "gate", "router"):
            names.add(name)
    return names
    ### END SOLUTION

# %% hints
# - `name.split(".")` gives the parts of a name. Which words must be equal to the last one?
# - `gate_proj` is a large layer of a gated MLP, and `gate` is a router.

# %% probe
from amp_lessons.exercises.fp8.harness import model_cases, play_keep

probe = Probe(model_cases, play=play_keep)

# %% judge
judge = Judge(asked_for="a set of names")

# %% passed
# Small layers that steer the model stay high, and the large ones pay for it. torchao takes such a
# choice as `module_filter_fn`.

# %% right a_comprehension
def keep_high(model):
    def converted(name, layer):
        fits = all(size % 16 == 0 for size in layer.weight.shape)
        return fits and name.rpartition(".")[2] not in {"gate", "router", "lm_head"}

    linear = {n: m for n, m in model.named_modules() if type(m) is nn.Linear}
    return {name for name, layer in linear.items() if not converted(name, layer)}

# %% right two_reasons
import re

def keep_high(model):
    kept = []
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            special = re.search(r"(^|\.)(lm_head|gate|router)$", name)
            aligned = math.gcd(module.in_features, module.out_features) % 16 == 0
            if special or not aligned:
                kept.append(name)
    return kept

# %% rule model-changed
# You changed the model. Return names, and leave the layers as they are.
def breaks(seen, right):
    return noted(seen, "the model") == "changed"
put("setattr(model, 'norm', nn.Identity())", before="names = set()")
of("a_comprehension", put("model.add_module('head', nn.Identity())", before="linear ="))

# %% rule not-names
# You returned {what}. Return the names of the layers, as strings: `in_block_format` takes names.
def breaks(seen, right):
    what = noted(seen, "returned")
    return what is not None and {"what": what if what.startswith("a ") else f"a {what}"}
swap("names.add(name)", "names.add(module)")
of("a_comprehension", swap("return {name for", "return {layer for"))
of("two_reasons", swap("return kept", "return ', '.join(kept)"))

# %% wrong gate-proj-kept
# You keep every layer with "gate" in its name. `gate_proj` is a large layer of a gated MLP and no
# router. Compare the last part of the name as a whole.
swap("last in (\"lm_head\", \"gate\", \"router\")",
    "\"gate\" in name or last in (\"lm_head\", \"router\")")
of("two_reasons", swap(r"(^|\.)(lm_head|gate|router)$", r"((^|\.)(lm_head|router)$)|gate"))

# %% wrong head-in-the-name
# You keep every layer with "head" in its name. `headwise_out` belongs to attention and is
# converted. Compare the last part of the name with `lm_head`.
swap("last in (\"lm_head\", \"gate\", \"router\")",
    "\"head\" in name or last in (\"gate\", \"router\")")
of("two_reasons", swap(r"(^|\.)(lm_head|gate|router)$", r"head|((^|\.)(gate|router)$)"))

# %% wrong head-converted
# You convert the head. Its errors go straight into the logits and the loss, so it stays in BF16.
swap("\"lm_head\", ", "")
of("two_reasons", swap("(lm_head|gate|router)", "(gate|router)"))
of("a_comprehension", swap(", \"lm_head\"", ""))

# %% wrong last-layer-is-the-head
# You take the last linear layer for the head. The order is that in which layers were defined, and
# the head may come first. Here its name says what it is.
(swap("\"lm_head\", ", "") & swap("return names", "return names | {linear[-1]}") &
    put("linear = [n for n, m in model.named_modules() if isinstance(m, nn.Linear)]",
    before="return names"))
of("a_comprehension", swap(", \"lm_head\"", "") & swap("if not converted(name, layer)}",
    "if not converted(name, layer) or name == list(linear)[-1]}"))

# %% wrong routers-converted
# You convert the routers. A small error there sends a token to another expert, so they stay in
# BF16.
swap("(\"lm_head\", \"gate\", \"router\")", "(\"lm_head\",)")
of("two_reasons", swap("(lm_head|gate|router)", "(lm_head)"))

# %% wrong one-router-only
# You know one name of a router and not the other. It is called `gate` or `router`.
swap("\"gate\", \"router\"", "\"router\"")
of("two_reasons", swap("|gate|router", "|gate"))
of("a_comprehension", swap("\"router\", ", ""))
of("a_comprehension", swap("\"gate\", ", ""))

# %% wrong inputs-only
# You look at `in_features` alone. In the backward pass `out_features` is the length of the sum, so
# both must be multiples of 16.
swap(" or module.out_features % 16 != 0", "")
of("a_comprehension", swap("in layer.weight.shape", "in layer.weight.shape[1:]"))

# %% wrong outputs-only
# You look at `out_features` alone. Both sizes must be multiples of 16. `weight.shape` is
# `(out_features, in_features)`.
swap("module.in_features % 16 != 0 or ", "")
of("a_comprehension", swap("in layer.weight.shape", "in layer.weight.shape[:1]"))

# %% wrong one-size-is-enough
# You keep a layer only if *both* sizes are odd ones. One that isn't a multiple of 16 is enough.
swap("!= 0 or module", "!= 0 and module")
of("a_comprehension", swap("all(size", "any(size"))

# %% wrong multiples-of-eight
# You ask for multiples of 8. That is the rule for FP16 and BF16: 16 bytes. FP8 numbers have one
# byte, so it is 16 of them.
swap("% 16", "% 8", nth=0)
of("a_comprehension", swap("% 16", "% 8"))

# %% wrong product-of-the-sizes
# You look at the number of weights. It can be a multiple of 16 though a size isn't: 40 times 40 is
# one.
swap("module.in_features % 16 != 0 or module.out_features % 16 != 0",
    "module.weight.numel() % 16 != 0")
of("two_reasons", swap("math.gcd(module.in_features, module.out_features)",
    "(module.in_features * module.out_features)"))

# %% wrong sizes-ignored
# You don't look at the sizes. FP8 products need both to be multiples of 16, so a layer from 64 to
# 24 stays in BF16.
swap("if odd or last", "if last")
of("a_comprehension", swap("return fits and ", "return "))
of("two_reasons", swap("special or not aligned", "special"))

# %% wrong inverted
# You return the layers that are converted. The set names those that stay.
swap("if odd or last in (\"lm_head\", \"gate\", \"router\")",
    "if not (odd or last in (\"lm_head\", \"gate\", \"router\"))")
of("a_comprehension", swap("if not converted", "if converted"))

# %% wrong top-level-only
# You look at the model's direct children, so layers inside blocks are missed. `named_modules()`
# goes all the way down.
swap("named_modules", "named_children")
of("a_comprehension", swap("model.named_modules()", "model.named_children()"))

# %% wrong short-names
# You return the last part of the names. Names are whole, such as `layers.0.mlp.gate`.
swap("names.add(name)", "names.add(last)")
of("a_comprehension", swap("return {name for", "return {name.rpartition('.')[2] for"))

# %% wrong others-included
# Your set has modules that aren't linear layers, such as norms or embeddings. They stay as they are
# anyway, and `in_block_format` refuses their names.
put("if isinstance(module, nn.Embedding | nn.LayerNorm): names.add(name)", before="if not isi")
of("two_reasons", put("rest = [n for n, m in model.named_modules() if 'orm' in type(m).__name__]",
    before="return kept") & swap("return kept", "return kept + rest"))
of("a_comprehension", put("norms = {n for n, m in model.named_modules() if 'norm' in n}",
    before="return {name") & swap("if not converted(name, layer)}",
    "if not converted(name, layer)} | norms"))
