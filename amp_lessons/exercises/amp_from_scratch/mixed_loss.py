# %% statement points=2 minutes=10
# # The casts in the right places
#
# Write `mixed_loss(images, weight, bias, labels)`: a linear classifier's mean cross-entropy.
#
# `images` has the shape (rows, inputs), `weight` (classes, inputs) and `bias` (classes,). All three
# are float32. `labels` has the shape (rows,).
#
# The matrix product runs in float16. Everything from the softmax on runs in float32, and the loss
# is returned as float32. `weight` and `bias` themselves don't change. After `loss.backward()` both
# have float32 gradients; the caller makes that call.

# %% answer
def mixed_loss(images, weight, bias, labels):
    """Mean cross-entropy of images @ weight.T + bias, the product in float16."""
    ### BEGIN SOLUTION
    logits = torch.nn.functional.linear(images.half(), weight.half(), bias.half())
    loss = torch.nn.functional.cross_entropy(logits.float(), labels)
    return loss
    ### END SOLUTION

# %% hints
# - Which operation is expensive and belongs in 16 bits? Which ones are fragile and need 32?
# - Call `.half()` on the inputs of the product, `.float()` on the logits.
# - `weight.half()` is a new tensor, and autograd sends the gradient back through the cast.

# %% probe
from amp_lessons.exercises.amp_from_scratch.harness import forward_and_back, loss_cases

probe = Probe(loss_cases, play=forward_and_back, watch=True)

# %% judge
# A product may also be written as a multiplication and a sum.
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "mul")
LOSS_STEPS = ("_log_softmax", "_softmax", "nll_loss_forward", "logsumexp", "exp", "log", "mean")

def flat(values):
    return [x for v in values for x in flat(v)] if isinstance(values, list) else [values]

def same(expected, seen):
    """Same dtypes and shapes; numbers to within what the rounding of FP16 products may change."""
    if is_dict(expected):
        return is_dict(seen) and not differing(expected, seen, same)
    if not is_tensor(expected) or not is_tensor(seen):
        return expected == seen
    if any(expected[key] != seen[key] for key in ("dtype", "shape")) or seen["values"] is None:
        return False
    one, other = flat(expected["values"]), flat(seen["values"])
    most = max((abs(x) for x in one if math.isfinite(x)), default=0)
    pairs = zip(one, other, strict=True)
    return all(a == b or (a != a and b != b) or abs(a - b) <= 0.02 * most for a, b in pairs)

def multiplied_in(seen):
    """The formats in which something was multiplied, both sides in the same one."""
    if not is_dict(seen.get("value")) or "loss" not in seen["value"]["dict"]:
        return set()
    taken = [op["takes"] for op in seen["ops"] if op["op"].removeprefix("aten::") in PRODUCTS]
    return {dtypes[0] for dtypes in taken if len(dtypes) == 1}

def in_float16(seen):
    """The steps of the loss that took float16."""
    taking = (op["op"].removeprefix("aten::") for op in seen["ops"] if "float16" in op["takes"])
    return [name for name in taking if name in LOSS_STEPS]

def tell(case, right, seen):
    if is_dict(seen["value"]) and in_float16(seen):
        return f"{case.label}: {in_float16(seen)[0]} was given float16 numbers"
    return line("", case, right, seen, same)

judge = Judge(same=same, tell=tell,
    asked_for="a float32 tensor without dimensions that has a gradient")

# %% passed
# Products in 16 bits, sums and exponentials in 32. CUDA's autocast decides the same, with lists of
# ops. A CPU's autocast leaves `exp` and `sum` in 16 bits.

# %% right written_out
def mixed_loss(images, weight, bias, labels):
    logits = (images.to(torch.float16) @ weight.to(torch.float16).T).float() + bias
    shifted = logits - logits.max(1, keepdim=True).values
    log_p = shifted - shifted.exp().sum(1, keepdim=True).log()
    return -log_p[torch.arange(len(labels)), labels].mean()

# %% right by_autocast
def mixed_loss(images, weight, bias, labels):
    with torch.autocast("cpu", dtype=torch.float16):
        logits = torch.nn.functional.linear(images, weight, bias)
    log_p = torch.log_softmax(logits, 1, dtype=torch.float32)
    return torch.nn.functional.nll_loss(log_p, labels)

# %% rule product-in-float32
# Your matrix product, the expensive operation, runs in FP32. Both its inputs must be float16.
def breaks(seen, right):
    return multiplied_in(seen) == {"float32"}
swap(".half()", "", nth=0)
of("written_out", swap(".to(torch.float16)", "", nth=0))
put("logits = (images[:, None] * weight).sum(-1) + bias", before="loss =") & drop("logits =", 1)

# %% rule product-in-bfloat16
# Your product runs in bfloat16, the default of autocast on a CPU. The task asks for float16.
def breaks(seen, right):
    formats = multiplied_in(seen)
    return "bfloat16" in formats and "float16" not in formats
of("by_autocast", swap(", dtype=torch.float16", ""))
swap(".half()", ".bfloat16()", nth=0)

# %% rule loss-in-float16
# Part of your loss runs in FP16: `{step}` was given float16 numbers. Exponentials overflow there,
# and sums lose small numbers. Convert the logits to float32 before the loss.
def breaks(seen, right):
    steps = in_float16(seen) if is_dict(seen.get("value")) else []
    return bool(steps) and {"step": steps[0]}
swap("logits.float()", "logits")
of("written_out", swap(".mean()", ".half().mean().float()"))

# %% wrong graph-cut
# No gradient comes back to `weight`, to `bias` or to both, because something cuts the graph:
# `detach()`, `.data` or `torch.no_grad()`. `.half()` is differentiable, so you don't need them.
swap("weight.half()", "weight.detach().half()")
swap("bias.half()", "bias.data.half()")
of("written_out", swap("+ bias", "+ bias.detach()"))
of("by_autocast", wrap("with torch.no_grad():", "with torch.autocast"))
swap("return loss", "return loss.detach()")

# %% wrong parameters-cast
# You changed the parameters, the master weights, to FP16 values. Make copies in each call instead.
put("weight.data, bias.data = weight.data.half(), bias.data.half()", before="logits")
of("by_autocast", put("for p in (weight, bias): p.data = p.data.half()", before="with"))
put("weight.data, bias.data = weight.half().float(), bias.half().float()", before="logits")

# %% wrong backward-inside
# You called `backward()`. The caller does that, and may scale the loss. Return it with its graph.
put("loss.backward()", before="return loss")
put("torch.autograd.backward(loss)", before="return") & swap("return loss", "return loss.detach()")

# %% wrong loss-returned-in-float16
# You rounded the loss to FP16 at the end. Times a scale of 65536 it overflows. Leave it in float32.
swap("return loss", "return loss.half()")
of("written_out", swap(".mean()", ".mean().to(images.half().dtype)"))

# %% wrong softmax-first
# You apply a softmax before the cross-entropy, which contains one. Pass the logits.
swap("logits.float()", "logits.float().softmax(1)")
put("logits = torch.softmax(logits, 1, torch.float32)", before="loss =")

# %% wrong log-of-softmax
# You take the logarithm of a softmax. Where an image has a large loss, its probability becomes zero
# even in FP32, or your epsilon replaces it. `log_softmax` and `cross_entropy` avoid that.
swap("cross_entropy(logits.float(), labels)", "nll_loss(logits.float().softmax(1).log(), labels)")
of("written_out", put("log_p = logits.softmax(1).log()", after="log_p ="))
of("written_out", put("log_p = (logits.softmax(1) + 1e-8).log()", after="log_p ="))

# %% wrong exp-overflows
# You take exponentials of the logits as they are. From a logit of about 89 on they overflow, even
# in FP32. Subtract each row's maximum first, or use `log_softmax` or `cross_entropy`.
of("written_out", swap("logits - logits.max(1, keepdim=True).values", "logits"))
of("written_out", put("log_p = logits - logits.exp().sum(1, True).log()", after="log_p ="))

# %% wrong log-softmax-forgotten
# `nll_loss` takes logarithms of probabilities. Apply `log_softmax` first, or use `cross_entropy`.
swap("cross_entropy", "nll_loss")
of("by_autocast", swap("torch.log_softmax(logits, 1, dtype=torch.float32)", "logits.float()"))

# %% wrong summed-not-averaged
# You returned one loss for each image, or their sum. The task asks for the mean over the images.
swap("labels)\n", 'labels, reduction="sum")\n')
swap("labels)\n", 'labels, reduction="none")\n')
of("written_out", swap(".mean()", ".sum()"))

# %% wrong sign-forgotten
# Your loss is negative. Cross-entropy is minus the logarithm of the probability.
of("written_out", swap("-log_p", "log_p"))
swap("return loss", "return -loss")

# %% wrong bias-forgotten
# The bias is missing from your logits.
swap(", bias.half()", "")
of("written_out", swap(" + bias", ""))
