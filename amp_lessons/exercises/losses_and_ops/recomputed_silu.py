# %% statement points=3 minutes=15
# # Decorate a Function
#
# This Function saves memory. It keeps `x` and the weight, and computes their product again in the
# backward pass. But under autocast its backward pass runs in another precision than its forward
# pass, and nothing raises an error.

# %% demo
class Silent(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        print("recomputed in", (x @ weight).dtype)
        return None, None


x, weight = torch.ones(2, 3, requires_grad=True), torch.ones(3, 4)
with torch.autocast("cpu", dtype=torch.float16):
    y = Silent.apply(x, weight)
print("computed in  ", y.dtype)
y.sum().backward()

# %% text
# Fix the class below, where it stands. `x` and `weight` are float32, on the CPU.
#
# - If `recomputed_silu` is called in a region, all matrix products run in the dtype of that region,
#   those of the backward pass too. `backward()` may be called in no region, or in one of another
#   dtype, and the function may be called again in between.
# - If it is called in no region, all matrix products run in float32.
# - The result has the dtype of the products.
# - The product of `x` and the weight is computed again in the backward pass, not kept.
#
# Leave the arguments and the state of autocast as they are.

# %% answer
class RecomputedSilu(torch.autograd.Function):
    """silu(x @ weight), with the product computed again in the backward pass."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


### BEGIN SOLUTION
class RecomputedSilu(torch.autograd.Function):
    """silu(x @ weight), with the product computed again in the backward pass."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


### END SOLUTION

# %% hints
# - Is autocast on while `forward` runs? And while `backward` runs?
# - Two decorators, below `@staticmethod`, solve it: one notes the state, and one restores it.
# - `torch.amp.custom_fwd` and `torch.amp.custom_bwd` both take a `device_type`.

# %% probe
from amp_lessons.exercises.losses_and_ops import harness_functions as harness

probe = Probe(harness.silu_cases, play=harness.play_function)

# %% judge
from amp_lessons.exercises.losses_and_ops.harness_functions import fact, products

own = harness.as_given("recomputed_silu")
judge = Judge(harness.same_function, "a tensor", tell=harness.tell, own=own)

# %% passed
# Your backward now runs in the state in which its forward ran, wherever it is called.

# %% right by_hand
class RecomputedSilu(torch.autograd.Function):
    @staticmethod
    def forward(x, weight):
        return F.silu(x @ weight)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.on, ctx.dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", dtype=ctx.dtype, enabled=ctx.on):
            h = x @ weight
            s = torch.sigmoid(h)
            grad_h = grad * (s + h * s * (1 - s))
            return grad_h @ weight.T, x.T @ grad_h

recomputed_silu = RecomputedSilu.apply

# %% right cast
class Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        h = x @ weight
        ctx.save_for_backward(x.to(h.dtype), weight.to(h.dtype))
        return h * torch.sigmoid(h)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            h = torch.mm(x, weight)
            s = h.sigmoid()
            grad_h = (grad * s * (1 + h * (1 - s))).to(x.dtype)
            return torch.mm(grad_h, weight.t()).float(), torch.mm(x.t(), grad_h).float()

recomputed_silu = Recomputed.apply

# %% rule no-function
# Your result was not computed by an autograd Function of yours. Call the `apply` of your class.
def breaks(seen, right):
    return fact(seen, "computed by") == "operations of torch"
swap("RecomputedSilu.apply(x, weight)", "F.silu(x @ weight)")

# %% rule bwd-without-fwd
# `custom_bwd` restores what `custom_fwd` noted, and nothing was noted here. Either `forward` has no
# `custom_fwd`, or its first argument isn't `ctx`, as in a Function with `setup_context`.
def breaks(seen, right):
    return "_fwd_used_autocast" in harness.message(seen)
swap('@torch.amp.custom_fwd(device_type="cpu")', "")
of("by_hand", swap("def forward", '@torch.amp.custom_fwd(device_type="cpu")\n    def forward') &
    swap("def backward", '@torch.amp.custom_bwd(device_type="cpu")\n    def backward'))

# %% rule dtypes-meet
# Two dtypes meet in a matrix product. Cast all that goes into it, or restore the forward's state.
def breaks(seen, right):
    return harness.two_dtypes_met(seen)
of("by_hand", unwrap("with torch") & put("x = x.to(grad.dtype)", before="h = x @ weight"))

# %% rule forward-in-another-dtype
# Your forward runs its product in {got}, where {right} is right. A dtype in the code or in
# `cast_inputs` doesn't follow the caller. Leave the choice to the open region.
def breaks(seen, right):
    wrong = products(seen, right, "forward")
    return wrong and {"got": wrong.pop(), "right": fact(right, "dtype of the result")}
swap('custom_fwd(device_type="cpu"', 'custom_fwd(device_type="cpu", cast_inputs=torch.float32')
of("by_hand", swap("F.silu(x @ weight)", "F.silu(x.bfloat16() @ weight.bfloat16())"))

# %% rule other-device
# `custom_fwd` asked about another device, and noted that autocast was off, in a region of the CPU.
# `torch.cuda.amp.custom_fwd` always asks about CUDA. Pass `device_type="cpu"`.
def breaks(seen, right):
    return fact(right, "forward in") != "no region" and fact(seen, "custom_fwd noted") == "off"
swap('"cpu"', '"cuda"', 0)

# %% rule fwd-without-bwd
# `custom_fwd` noted the state of autocast, but the products of your backward don't run in it.
# Either `custom_bwd(device_type="cpu")` is missing, or a region inside your backward overrides it.
def breaks(seen, right):
    return fact(seen, "custom_fwd noted") == "on" and products(seen, right, "backward")
swap('@torch.amp.custom_bwd(device_type="cpu")', "")
swap('bwd(device_type="cpu")', 'bwd(device_type="cuda")')
wrap('with torch.autocast("cpu", enabled=False):', "h = x @ weight", nth=2)

# %% rule state-overwritten
# Your backward follows the last call, since you note one state for all. Keep it on `ctx`.
def breaks(seen, right):
    later = products(seen, right, "backward after another call")
    return later and not products(seen, right, "backward")
of("by_hand", swap("ctx.on", "type(ctx).on", 0) & swap("ctx.dtype", "type(ctx).dtype", 0))

# %% rule backward-in-float32
# The product of your forward ran in 16 bits, and your backward runs one in float32. Outside a
# region, or with autocast off, nothing casts for you. Restore the state that the forward ran in.
def breaks(seen, right):
    return products(seen, right, "backward") == {"float32"}
of("by_hand", swap("dtype=ctx.dtype, enabled=ctx.on", "enabled=False"))

# %% rule backward-in-another-dtype
# Your forward ran in {right}, and your backward, called in no region, runs a product in {got}. Note
# whether autocast was on, and its dtype. `get_autocast_dtype` gives one even when it is off.
def breaks(seen, right):
    wrong = fact(right, "backward in") == "no region" and products(seen, right, "backward")
    return wrong and {"got": wrong.pop(), "right": fact(right, "dtype of the result")}
of("by_hand", swap("dtype=ctx.dtype, enabled=ctx.on", "dtype=torch.float16"))
of("by_hand", swap(", enabled=ctx.on", ""))

# %% rule backward-elsewhere
# Your backward, or a part of it, follows the region that it is called in, not the forward's.
def breaks(seen, right):
    return fact(right, "backward in") in (products(seen, right, "backward") or ())
of("cast", unwrap("with torch.autocast"))

# %% rule state-left-behind
# Your Function leaves autocast in another state. Use a `with`, which puts the state back.
def breaks(seen, right):
    return fact(seen, "autocast after the call") == "changed"
of("cast", put('torch.set_autocast_enabled("cpu", False)', before="return h * torch.sigmoid"))

# %% rule product-kept
# Your backward runs {count} of the 3 products, so it doesn't compute the one of `x` and the weight
# again. If you kept it from the forward, you kept its memory. Keep `x` and the weight only.
def breaks(seen, right):
    few = fact(seen, "number of products in the backward")
    return few in (1, 2) and not products(seen, right, "backward") and {"count": few}
of("cast", swap("x.to(h.dtype), weight.to(h.dtype)", "x.to(h.dtype), weight.to(h.dtype), h") &
    swap("x, weight = ctx", "x, weight, h = ctx") & drop("h = torch.mm"))

# %% rule another-dtype-returned
# Your result is {got}, where {right} was asked for. Return it as it comes out of the product.
def breaks(seen, right):
    got, wanted = fact(seen, "dtype of the result"), fact(right, "dtype of the result")
    return got not in (None, wanted) and {"got": got, "right": wanted}
swap("RecomputedSilu.apply(x, weight)", "RecomputedSilu.apply(x, weight).float()")

# %% rule formula-changed
# Your Function computes something else now: its result or its gradient is wrong in float32, in no
# region. The formulas were right as they stood. Only the backward's state has to change.
def breaks(seen, right):
    plain = fact(right, "forward in") == fact(right, "backward in") == "no region"
    return plain and fact(seen, "x") and not harness.same_function(right["value"], seen["value"])
swap("grad_h = grad * (s + h * s * (1 - s))", "grad_h = grad * s", nth=2)
swap("F.silu(x @ weight)", "torch.sigmoid(x @ weight)", nth=2)
