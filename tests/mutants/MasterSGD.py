# === mutant: sixteen_bits_all_the_way -> no-masters
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.velocities = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self):
        for p, v in zip(self.parameters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_(p.grad)
                p -= self.lr * v


# === mutant: masters_made_anew_each_step -> no-masters
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.velocities = [torch.zeros_like(p, dtype=torch.float32) for p in self.parameters]

    @torch.no_grad()
    def step(self):
        for p, v in zip(self.parameters, self.velocities):
            if p.grad is not None:
                master = p.float()
                v.mul_(self.momentum).add_(p.grad.float())
                master -= self.lr * v
                p.copy_(master)


# === mutant: masters_that_are_clones -> no-masters
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.masters = [p.detach().clone() for p in self.parameters]
        self.velocities = [torch.zeros_like(m) for m in self.masters]

    @torch.no_grad()
    def step(self):
        for p, m, v in zip(self.parameters, self.masters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_(p.grad)
                m -= self.lr * v
                p.copy_(m)


# === mutant: model_never_sees_the_masters -> not-written-back
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.masters = [p.detach().float() for p in self.parameters]
        self.velocities = [torch.zeros_like(m) for m in self.masters]

    @torch.no_grad()
    def step(self):
        for p, m, v in zip(self.parameters, self.masters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_(p.grad.float())
                m -= self.lr * v


# === mutant: puts_new_tensors_in_its_own_list -> not-written-back
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.masters = [p.detach().float() for p in self.parameters]
        self.velocities = [torch.zeros_like(m) for m in self.masters]
        self.gradients_from = list(self.parameters)

    @torch.no_grad()
    def step(self):
        for i, p in enumerate(self.gradients_from):
            if p.grad is not None:
                self.velocities[i] = self.momentum * self.velocities[i] + p.grad.float()
                self.masters[i] = self.masters[i] - self.lr * self.velocities[i]
                self.parameters[i] = self.masters[i].to(p.dtype)


# === mutant: data_replaced_by_the_master -> parameters-became-wide
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.masters = [p.detach().float() for p in self.parameters]
        self.velocities = [torch.zeros_like(m) for m in self.masters]

    @torch.no_grad()
    def step(self):
        for p, m, v in zip(self.parameters, self.masters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_(p.grad.float())
                m -= self.lr * v
                p.data = m.clone()


# === mutant: multiplies_before_it_converts -> update-in-16-bit
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.masters = [p.detach().float() for p in self.parameters]
        self.velocities = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self):
        for p, m, v in zip(self.parameters, self.masters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_(p.grad)
                m -= (self.lr * v).float()
                p.copy_(m)


# === mutant: rounds_the_velocity_for_the_product -> update-in-16-bit
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.masters = [p.detach().float() for p in self.parameters]
        self.velocities = [torch.zeros_like(m) for m in self.masters]

    @torch.no_grad()
    def step(self):
        for p, m, v in zip(self.parameters, self.masters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_(p.grad.float())
                m.sub_(self.lr * v.to(p.dtype))
                p.copy_(m)


# === mutant: momentum_like_the_gradient -> momentum-in-16-bit
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.masters = [p.detach().float() for p in self.parameters]
        self.velocities = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self):
        for p, m, v in zip(self.parameters, self.masters, self.velocities):
            if p.grad is not None:
                v.copy_(self.momentum * v.float() + p.grad.float())
                m.sub_(self.lr * v.float())
                p.copy_(m)


# === mutant: momentum_as_an_average -> momentum-damped
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.masters = [p.detach().float() for p in self.parameters]
        self.velocities = [torch.zeros_like(m) for m in self.masters]

    @torch.no_grad()
    def step(self):
        for p, m, v in zip(self.parameters, self.masters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_(p.grad.float(), alpha=1 - self.momentum)
                m.sub_(self.lr * v)
                p.copy_(m)


# === mutant: plain_sgd -> momentum-ignored
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr = list(parameters), lr
        self.masters = [p.detach().float() for p in self.parameters]

    @torch.no_grad()
    def step(self):
        for p, m in zip(self.parameters, self.masters):
            if p.grad is not None:
                m.sub_(self.lr * p.grad.float())
                p.copy_(m)


# === mutant: climbs -> uphill
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.masters = [p.detach().float() for p in self.parameters]
        self.velocities = [torch.zeros_like(m) for m in self.masters]

    @torch.no_grad()
    def step(self):
        for p, m, v in zip(self.parameters, self.masters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_(p.grad.float())
                m.add_(self.lr * v)
                p.copy_(m)


# === mutant: updates_twice -> wrong-value
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.masters = [p.detach().float() for p in self.parameters]
        self.velocities = [torch.zeros_like(m) for m in self.masters]

    @torch.no_grad()
    def step(self):
        for p, m, v in zip(self.parameters, self.masters, self.velocities):
            if p.grad is not None:
                v.mul_(self.momentum).add_(p.grad.float())
                m.sub_(2 * self.lr * v)
                p.copy_(m)


# === mutant: puts_new_tensors_in_the_callers_list -> not-written-back
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = parameters, lr, momentum
        self.masters = [p.detach().float() for p in parameters]
        self.velocities = [torch.zeros_like(m) for m in self.masters]
        self.gradients_from = list(parameters)

    @torch.no_grad()
    def step(self):
        for i, p in enumerate(self.gradients_from):
            if p.grad is not None:
                self.velocities[i] = self.momentum * self.velocities[i] + p.grad.float()
                self.masters[i] = self.masters[i] - self.lr * self.velocities[i]
                self.parameters[i] = self.masters[i].to(p.dtype)



# === correct: torch_does_the_arithmetic
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.pairs = [(p, torch.nn.Parameter(p.detach().float())) for p in parameters]
        self.inner = torch.optim.SGD([m for _, m in self.pairs], lr=lr, momentum=momentum)

    def step(self):
        for p, m in self.pairs:
            m.grad = None if p.grad is None else p.grad.float()
        self.inner.step()
        for p, m in self.pairs:
            p.data.copy_(m.data)


# === correct: learning_rate_inside_the_velocity
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.state = {}

    def step(self):
        for p in self.parameters:
            if p.grad is None:
                continue
            master, moved = self.state.get(p, (p.detach().to(torch.float32), 0.0))
            moved = self.momentum * moved - self.lr * p.grad.to(torch.float32)
            master = master + moved
            self.state[p] = master, moved
            with torch.no_grad():
                p[...] = master.to(p.dtype)


# === correct: a_torch_optimizer
class MasterSGD(torch.optim.Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    state = self.state[p]
                    state.setdefault("master", p.detach().float())
                    v = group["momentum"] * state.get("v", 0.0) + p.grad.float()
                    state["v"] = v
                    state["master"] -= group["lr"] * v
                    p.copy_(state["master"])


# === correct: zeroes_the_gradient_it_has_used
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum = parameters, lr, momentum
        self.masters = [p.detach().double() for p in parameters]
        self.velocities = [0.0] * len(parameters)

    @torch.no_grad()
    def step(self):
        for i, p in enumerate(self.parameters):
            if p.grad is not None:
                self.velocities[i] = self.momentum * self.velocities[i] + p.grad.double()
                self.masters[i] -= self.lr * self.velocities[i]
                p.data = self.masters[i].to(p.dtype)
                p.grad.zero_()


# === mutant: breaks_at_the_first_none -> stops-at-none
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters = list(parameters)
        self.lr = lr
        self.momentum = momentum
        self.masters = [p.detach().clone().float() for p in self.parameters]
        self.bufs = [torch.zeros_like(m) for m in self.masters]

    @torch.no_grad()
    def step(self):
        for p, m, b in zip(self.parameters, self.masters, self.bufs):
            if p.grad is None:
                break
            b.mul_(self.momentum).add_(p.grad.float())
            m.add_(b, alpha=-self.lr)
            p.copy_(m)


# === mutant: none_is_zero_gradient -> moves-without-gradient
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.params, self.lr, self.mu = list(parameters), lr, momentum
        self.m = [p.detach().float() for p in self.params]
        self.v = [torch.zeros_like(x) for x in self.m]

    @torch.no_grad()
    def step(self):
        for p, m, v in zip(self.params, self.m, self.v):
            g = p.grad.float() if p.grad is not None else torch.zeros_like(m)
            v.mul_(self.mu).add_(g)
            m.sub_(self.lr * v)
            p.copy_(m)


# === mutant: stale_inner_grad -> moves-without-gradient
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.pairs = [(p, p.detach().float().requires_grad_()) for p in parameters]
        self.opt = torch.optim.SGD([m for _, m in self.pairs], lr=lr, momentum=momentum)

    def step(self):
        for p, m in self.pairs:
            if p.grad is not None:
                m.grad = p.grad.float()
        self.opt.step()
        with torch.no_grad():
            for p, m in self.pairs:
                p.copy_(m)


# === mutant: half_written_into_the_program -> float16-for-all
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.params, self.lr, self.mu = list(parameters), lr, momentum
        self.m = [p.detach().float() for p in self.params]
        self.v = [torch.zeros_like(x) for x in self.m]

    @torch.no_grad()
    def step(self):
        for p, m, v in zip(self.params, self.m, self.v):
            if p.grad is None:
                continue
            v.mul_(self.mu).add_(p.grad.float())
            m.sub_(self.lr * v)
            p.copy_(m.half())


# === mutant: data_half -> float16-for-all
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.params, self.lr, self.mu = list(parameters), lr, momentum
        self.m = [p.detach().float() for p in self.params]
        self.v = [torch.zeros_like(x) for x in self.m]

    @torch.no_grad()
    def step(self):
        for p, m, v in zip(self.params, self.m, self.v):
            if p.grad is None:
                continue
            v.mul_(self.mu).add_(p.grad.float())
            m.sub_(self.lr * v)
            p.data = m.half()


# === mutant: one_velocity_for_all -> momentum-shared
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.params, self.lr, self.mu = list(parameters), lr, momentum
        self.m = [p.detach().float() for p in self.params]
        self.v = 0.0

    @torch.no_grad()
    def step(self):
        for p, m in zip(self.params, self.m):
            if p.grad is not None:
                self.v = self.mu * self.v + p.grad.float()
                m -= self.lr * self.v
                p.copy_(m)


# === correct: foreach
class MasterSGD:
    def __init__(self, parameters, lr, momentum=0.0):
        self.p = list(parameters)
        self.m = [torch.empty_like(p, dtype=torch.float32).copy_(p.detach()) for p in self.p]
        self.v = [torch.zeros_like(m) for m in self.m]
        self.lr, self.mu = lr, momentum

    @torch.inference_mode(False)
    @torch.no_grad()
    def step(self):
        live = [i for i, p in enumerate(self.p) if p.grad is not None]
        g = [self.p[i].grad.float() for i in live]
        v = [self.v[i] for i in live]
        m = [self.m[i] for i in live]
        torch._foreach_mul_(v, self.mu)
        torch._foreach_add_(v, g)
        torch._foreach_add_(m, v, alpha=-self.lr)
        torch._foreach_copy_([self.p[i] for i in live], m)
