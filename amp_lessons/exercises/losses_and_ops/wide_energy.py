# %% statement points=2 minutes=10
# # A Function for FP32 only
#
# The products of this Function need float32. Fix the class below, where it stands.
#
# - Its matrix products run in float32, called in a region of float16 or bfloat16 or in no region.
#   Those of the backward pass do too, wherever `backward()` is called.
# - The energy is float32.
#
# In a region `x` is 16-bit or float32; in no region it is float32. The matrix is float32 and
# symmetric, and needs no gradient. Everything is on the CPU. Leave the arguments and the state of
# autocast as they are.

# %% answer
class Energy(torch.autograd.Function):
    """Half of x A x for each row of x."""

    @staticmethod
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


### BEGIN SOLUTION
class Energy(torch.autograd.Function):
    """Half of x A x for each row of x."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x @ matrix), None


### END SOLUTION

# %% hints
# - Two things are needed in both halves: inputs in float32, and autocast switched off.
# - One of the two decorators of the lesson has an argument that does both.
# - Pass `cast_inputs` to `custom_fwd`. `custom_bwd` is for a backward that runs inside a region.

# %% probe
from amp_lessons.exercises.losses_and_ops import harness_functions as harness

probe = Probe(harness.energy_cases, play=harness.play_function)

# %% judge
from amp_lessons.exercises.losses_and_ops.harness_functions import fact, products

own = harness.as_given("wide_energy")
judge = Judge(harness.same_function, "a tensor", tell=harness.tell, own=own)

# %% passed
# `cast_inputs` casts what goes into `forward`, and switches autocast off in both halves.

# %% right by_hand
class Energy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, matrix):
        with torch.autocast("cpu", enabled=False):
            x = x.float()
            ctx.save_for_backward(x, matrix)
            return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            return grad.unsqueeze(1) * torch.matmul(x, matrix), None

wide_energy = Energy.apply

# %% right newer_style
class Energy(torch.autograd.Function):
    @staticmethod
    def forward(x, matrix):
        return torch.einsum("ij,jk,ik->i", x, matrix, x) / 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, matrix = inputs
        ctx.save_for_backward(x.double() @ matrix.double())

    @staticmethod
    def backward(ctx, grad):
        (product,) = ctx.saved_tensors
        return (grad[:, None] * product).float(), None

def wide_energy(x, matrix):
    with torch.autocast("cpu", enabled=False):
        return Energy.apply(x.float(), matrix)

# %% rule no-function
# Your result was not computed by an autograd Function of yours. Call the `apply` of your class.
def breaks(seen, right):
    return fact(seen, "computed by") == "operations of torch"
swap("Energy.apply(x, matrix)", "0.5 * ((x.float() @ matrix) * x.float()).sum(-1)")

# %% rule bwd-without-fwd
# `custom_bwd` restores what `custom_fwd` noted, and nothing was noted here. Either `forward` has no
# `custom_fwd`, or its first argument isn't `ctx`, as in a Function with `setup_context`.
def breaks(seen, right):
    return "_fwd_used_autocast" in harness.message(seen)
swap('@torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)', "")
of("newer_style", swap("def back", '@torch.amp.custom_bwd(device_type="cpu")\n    def back'))

# %% rule cast-to-16-bits
# Your forward runs its product in {got}. `cast_inputs` names that dtype, and it should be float32.
def breaks(seen, right):
    region, wrong = fact(right, "forward in"), products(seen, right, "forward")
    return wrong - {region} and {"got": (wrong - {region}).pop()}
swap("cast_inputs=torch.float32", "cast_inputs=torch.float16")
swap("cast_inputs=torch.float32", "cast_inputs=torch.bfloat16")

# %% rule state-is-no-precision
# `custom_fwd` without `cast_inputs` leaves autocast on, and `custom_bwd` restores that. A product
# still runs in 16 bits. `cast_inputs=torch.float32` casts the inputs and switches autocast off.
def breaks(seen, right):
    wrong = products(seen, right, "forward") or products(seen, right, "backward")
    return fact(seen, "custom_fwd noted") == "on" and wrong
swap(", cast_inputs=torch.float32", "")
of("by_hand", swap("def forward", '@torch.amp.custom_fwd(device_type="cpu")\n    def forward') &
    swap("def backward", '@torch.amp.custom_bwd(device_type="cpu")\n    def backward') &
    unwrap("with torch.autocast", nth=2))

# %% rule other-device
# `custom_fwd` asked about another device, and noted that autocast was off, in a region of the CPU.
# `torch.cuda.amp.custom_fwd` always asks about CUDA. Pass `device_type="cpu"`.
def breaks(seen, right):
    return fact(seen, "custom_fwd noted") == "off" and products(seen, right, "forward")
swap('"cpu"', '"cuda"', nth=0)

# %% rule forward-in-16-bits
# The product of your forward still runs in 16 bits: in a region autocast casts back what `.float()`
# gave. Switch autocast off, for the CPU, *and* cast, before the product: it may overflow.
def breaks(seen, right):
    return products(seen, right, "forward")
of("by_hand", unwrap("with torch.autocast", nth=1))
of("by_hand", swap('"cpu"', '"cuda"', nth=0))

# %% rule dtypes-meet
# A 16-bit tensor meets the float32 matrix. With autocast off, `x` must be cast in both halves.
def breaks(seen, right):
    return harness.two_dtypes_met(seen)
of("by_hand", drop("x = x.float()"))
of("by_hand", move("x = x.float()", after="ctx.save_for_backward"))

# %% rule backward-in-16-bits
# A product of your backward runs in 16 bits. `backward()` may be called in a region, and `x` may
# have 16 bits. In the backward too, use float32 inputs, and switch autocast off *for the CPU*.
def breaks(seen, right):
    return products(seen, right, "backward")
swap('@torch.amp.custom_bwd(device_type="cpu")', "")
of("by_hand", unwrap("with torch.autocast", nth=2))
of("by_hand", swap('"cpu"', '"cuda"', nth=2))

# %% rule state-left-behind
# Your Function leaves autocast in another state. Use a `with`, which puts the state back.
def breaks(seen, right):
    return fact(seen, "autocast after the call") == "changed"
of("by_hand", put('torch.set_autocast_enabled("cpu", False)', before="x =") & unwrap("with", 1))

# %% rule another-dtype-returned
# The energy comes back in {got}. It should be float32: FP16 cannot store a large one.
def breaks(seen, right):
    got = fact(seen, "dtype of the result")
    return got not in (None, "float32") and {"got": got}
swap("0.5 * ((x @ matrix) * x).sum(-1)", "(0.5 * ((x @ matrix) * x).sum(-1)).half()", nth=2)

# %% rule formula-changed
# Your Function computes something else now: its result or its gradient is wrong in float32, in no
# region. Either a formula changed, or something was rounded to 16 bits on the way.
def breaks(seen, right):
    plain = fact(right, "forward in") == fact(right, "backward in") == "no region"
    return plain and fact(seen, "x") and not harness.same_function(right["value"], seen["value"])
swap("grad.unsqueeze(-1) * (x @ matrix)", "0.5 * grad.unsqueeze(-1) * (x @ matrix)", nth=2)
of("by_hand", put("x = x.bfloat16().float()", after="x, matrix = ctx"))
