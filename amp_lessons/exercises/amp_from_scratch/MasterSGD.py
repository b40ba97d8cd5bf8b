# %% statement points=3 minutes=20
# # An optimizer with master weights
#
# Write the class `MasterSGD`: SGD for 16-bit parameters that keeps an FP32 master of each one.
#
# `MasterSGD(parameters, lr, momentum=0.0)` gets a list of float16 or bfloat16 parameters. `step()`
# reads each one's `.grad`, of the same dtype, and updates as `torch.optim.SGD` does, in float32:
#
# ```
# velocity = momentum * velocity + gradient
# weight = weight - lr * velocity
# ```
#
# Afterwards each parameter holds its master rounded to 16 bits. It is the same tensor as before, in
# the same dtype. If a parameter's `.grad` is None, neither the parameter nor its velocity changes.

# %% answer
class MasterSGD:
    """SGD with float32 master weights for 16-bit parameters."""

    def __init__(self, parameters, lr, momentum=0.0):
        ### BEGIN SOLUTION
        self.parameters = list(parameters)
        self.lr, self.momentum = lr, momentum
        self.masters = [p.detach().float() for p in self.parameters]
        self.velocities = [torch.zeros_like(m) for m in self.masters]
        ### END SOLUTION

    @torch.no_grad()
    def step(self):
        """Update the masters with the parameters' gradients, then the parameters."""
        ### BEGIN SOLUTION
        for p, master, velocity in zip(self.parameters, self.masters, self.velocities, strict=True):
            if p.grad is not None:
                velocity.mul_(self.momentum).add_(p.grad.float())
                master.sub_(self.lr * velocity)
                p.copy_(master)
        ### END SOLUTION

# %% hints
# - Masters and velocities must survive from one step to the next. Create both in `__init__`.
# - In `step`, first convert the gradient to float32, last round the master into the parameter.
# - `parameter.detach().float()` makes a master. `parameter.copy_(master)`, under
#   `torch.no_grad()`, writes it back. Skip a parameter that has no gradient.

# %% probe
from amp_lessons.exercises.amp_from_scratch.harness_training import optimizer_cases, with_gradients

probe = Probe(optimizer_cases, play=with_gradients)

# %% judge
def same(expected, seen):
    """Weights may differ by one ulp, since two right orders of operations do."""
    if is_dict(expected):
        return is_dict(seen) and not differing(expected, seen, same)
    return expected == seen or (is_tensor(expected) and within_ulps(1)(expected, seen))

judge = Judge(same=same, asked_for="an object with a method `step()`")

# %% passed
# What adds up small numbers must be wide: masters and velocities. Copies to read can be narrow.

# %% right torch_does_the_arithmetic
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.pairs = [(p, torch.nn.Parameter(p.detach().float())) for p in parameters]
        self.inner = torch.optim.SGD([m for _, m in self.pairs], lr=lr, momentum=momentum)

    @torch.no_grad()
    def step(self):
        for p, m in self.pairs:
            m.grad = None if p.grad is None else p.grad.float()
        self.inner.step()
        for p, m in self.pairs:
            p.copy_(m)

# %% right rate_inside_the_velocity
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.state = {}

    @torch.no_grad()
    def step(self):
        for p in self.parameters:
            if p.grad is None:
                continue
            master, moved = self.state.get(p, (p.detach().double(), 0.0))
            moved = self.momentum * moved - self.lr * p.grad.double()
            master = master + moved
            self.state[p] = master, moved
            p.data = master.to(p.dtype)
            p.grad.zero_()

# %% wrong no-masters
# Between two steps your weights exist only in 16 bits, so an update that is small beside its weight
# is rounded away. Make the masters once, in FP32, and keep them from step to step.
put("master = p.float()", before="velocity.mul_")
swap("p.detach().float() for p", "p.detach().clone() for p")
put("self.masters = [p.detach().float() for p in self.parameters]", after="for p, master")

# %% wrong not-written-back
# The parameters that the model computes with never change. After each update copy the master into
# its parameter, in place: `parameter.copy_(master)`, under `torch.no_grad()`.
drop("p.copy_")
of("rate_inside_the_velocity", drop("p.data"))

# %% wrong one-step-late
# Each gradient reaches the parameter one step late: you write the parameter before you update its
# master, or use the velocity too early. The order is: velocity, master, parameter.
move("p.copy_", before="master.sub_")
move("velocity.mul_", after="p.copy_")

# %% wrong parameters-became-wide
# You replaced the parameter's data by the FP32 master, so from then on the model computes in FP32.
# Keep the parameter's dtype: `copy_` rounds the master into it.
swap("p.copy_(master)", "p.data = master")
swap("p.copy_(master)", "p.data = p.data.float().copy_(master)")

# %% wrong update-in-16-bit
# Your masters are FP32, but you multiply by the learning rate in 16 bits. The product becomes zero
# there when both factors are small. Convert the gradient to FP32 first, then multiply.
swap("self.lr * velocity", "self.lr * velocity.to(p.dtype)")
swap("zeros_like(m) for m in self.masters", "zeros_like(p) for p in self.parameters")
of("rate_inside_the_velocity", swap("self.lr * p.grad.double()", "(self.lr * p.grad).double()"))
swap("add_(p.grad.float())", "add_(self.lr * p.grad)") & swap("self.lr * velocity", "velocity")

# %% wrong momentum-in-16-bit
# You keep the velocity in 16 bits, so small gradients are rounded away beside it. Keep it in FP32.
put("velocity.copy_(velocity.to(p.dtype))", before="master.sub_")
(swap("zeros_like(m) for m in self.masters", "zeros_like(p) for p in self.parameters") &
    swap("self.lr * velocity", "self.lr * velocity.float()"))
put("velocity.copy_(velocity.to(p.dtype))", after="p.copy_")

# %% wrong momentum-damped
# You multiplied the gradient by `1 - momentum`, which makes an average. Add the whole gradient.
swap("add_(p.grad.float())", "add_(p.grad.float(), alpha=1 - self.momentum)")
swap("add_(p.grad.float())", "add_(p.grad.float()).sub_(self.momentum * p.grad.float())")

# %% wrong momentum-times-gradient
# You multiply the new gradient by the momentum as well. Multiply the old velocity first, then add.
swap("mul_(self.momentum).add_(p.grad.float())", "add_(p.grad.float()).mul_(self.momentum)")
swap("add_(p.grad.float())", "add_(self.momentum * p.grad.float())")

# %% wrong rate-applied-twice
# You apply the learning rate twice: to the gradient that you add, and again to the velocity.
swap("add_(p.grad.float())", "add_(self.lr * p.grad.float())")
of("rate_inside_the_velocity", swap("master + moved", "master + self.lr * moved"))

# %% wrong momentum-ignored
# Your weights move as without momentum. Keep velocities and subtract `lr * velocity`.
swap("self.lr * velocity", "self.lr * p.grad.float()")
swap("velocity.mul_(self.momentum)", "velocity.zero_()")

# %% wrong nesterov
# You look ahead: your update is the gradient plus `momentum * velocity`. That is Nesterov momentum,
# an option of `torch.optim.SGD` that is off by default. Subtract `lr * velocity`.
swap("self.lr * velocity", "self.lr * (p.grad.float() + self.momentum * velocity)")
put("velocity = self.momentum * velocity + p.grad.float()", before="master.sub_")

# %% wrong momentum-shared
# All parameters share one velocity in your class. Each needs its own, as it needs its own master.
(swap("[torch.zeros_like(m) for m in self.masters]", "[0.0] * len(self.masters)") &
    swap("velocity.mul_(self.momentum).add_(p.grad.float())",
    "self.v = velocity = self.momentum * getattr(self, 'v', 0.0) + p.grad.float()"))
of("rate_inside_the_velocity", swap("moved = self.momentum * moved",
    "self.v = moved = self.momentum * vars(self).get('v', 0)"))

# %% wrong moves-without-gradient
# A parameter whose `.grad` is None still moves. Skip it: neither it nor its velocity changes then.
put("if p.grad is None: p.grad = torch.zeros_like(p)", before="if p.grad")
of("rate_inside_the_velocity", swap("continue", "p.grad = torch.zeros_like(p)"))
of("torch_does_the_arithmetic", swap("None if p.grad", "m.grad if p.grad"))

# %% wrong velocity-reset
# You set the velocity to zero when a parameter has no gradient. Keep it for the next gradient.
put("if p.grad is None: velocity.zero_()", before="if p.grad")
(swap("velocity.mul_", "velocity.mul_(getattr(p, 'had', True)).mul_") &
    put("p.had = p.grad is not None", after="if p.grad"))

# %% wrong stops-at-none
# Your step ends at the first parameter without a gradient. Skip only that one, with `continue`.
put("if p.grad is None: break", before="if p.grad")
put("if any(q.grad is None for q in self.parameters): return", before="for p, master")
of("rate_inside_the_velocity", swap("continue", "return"))

# %% wrong one-dtype-for-all
# You wrote one 16-bit dtype into the class. Round to the parameter's own, as `copy_` does for you.
swap("p.copy_(master)", "p.copy_(master.half())")
swap("p.copy_(master)", "p.data = master.half()")
of("rate_inside_the_velocity", swap("p.data = master.to(p.dtype)", "p[...] = master.half()"))

# %% wrong uphill
# Your weights move the wrong way. Subtract the update.
swap("master.sub_", "master.add_")
swap("self.lr * velocity", "-self.lr * velocity")
