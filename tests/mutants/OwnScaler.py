# === mutant: found_but_stepped -> steps-anyway
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        self.found_inf = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad.mul_(1 / self.s)
                if not torch.isfinite(p.grad).all():
                    self.found_inf = True
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
            self.count = 0
        else:
            self.count += 1
            if self.count == self.interval:
                self.s *= self.growth
                self.count = 0
        self.unscaled = False

    def get_scale(self):
        return self.s


# === mutant: nan_to_num -> overflow-zeroed
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        self.found_inf = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad.mul_(1 / self.s)
                if not torch.isfinite(p.grad).all():
                    self.found_inf = True
                p.grad = torch.nan_to_num(p.grad, nan=0.0, posinf=0.0, neginf=0.0)
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
            self.count = 0
        else:
            self.count += 1
            if self.count == self.interval:
                self.s *= self.growth
                self.count = 0
        self.unscaled = False

    def get_scale(self):
        return self.s


# === mutant: isinf_only -> nan-missed
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        self.found_inf = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad.mul_(1 / self.s)
                if torch.isinf(p.grad).any():
                    self.found_inf = True
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
            self.count = 0
        else:
            self.count += 1
            if self.count == self.interval:
                self.s *= self.growth
                self.count = 0
        self.unscaled = False

    def get_scale(self):
        return self.s


# === mutant: isnan_only -> inf-missed
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        self.found_inf = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad.mul_(1 / self.s)
                if (p.grad != p.grad).any():
                    self.found_inf = True
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
            self.count = 0
        else:
            self.count += 1
            if self.count == self.interval:
                self.s *= self.growth
                self.count = 0
        self.unscaled = False

    def get_scale(self):
        return self.s


# === mutant: flag_overwritten -> last-gradient-decides
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        self.found_inf = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad.mul_(1 / self.s)
                self.found_inf = not torch.isfinite(p.grad).all().item()
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
            self.count = 0
        else:
            self.count += 1
            if self.count == self.interval:
                self.s *= self.growth
                self.count = 0
        self.unscaled = False

    def get_scale(self):
        return self.s


# === mutant: one_group -> first-group-only
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        self.found_inf = False
        for group in optimizer.param_groups[:1]:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad.mul_(1 / self.s)
                if not torch.isfinite(p.grad).all():
                    self.found_inf = True
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
            self.count = 0
        else:
            self.count += 1
            if self.count == self.interval:
                self.s *= self.growth
                self.count = 0
        self.unscaled = False

    def get_scale(self):
        return self.s


# === mutant: step_always_unscales -> unscaled-twice
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        self.found_inf = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad.mul_(1 / self.s)
                if not torch.isfinite(p.grad).all():
                    self.found_inf = True
        self.unscaled = True

    def step(self, optimizer):
        self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
            self.count = 0
        else:
            self.count += 1
            if self.count == self.interval:
                self.s *= self.growth
                self.count = 0
        self.unscaled = False

    def get_scale(self):
        return self.s


# === mutant: flag_never_reset -> unscaled-flag-kept
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        self.found_inf = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad.mul_(1 / self.s)
                if not torch.isfinite(p.grad).all():
                    self.found_inf = True
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
            self.count = 0
        else:
            self.count += 1
            if self.count == self.interval:
                self.s *= self.growth
                self.count = 0

    def get_scale(self):
        return self.s


# === mutant: looks_and_does_not_divide -> never-unscaled
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        self.found_inf = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not torch.isfinite(p.grad).all():
                    self.found_inf = True
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
            self.count = 0
        else:
            self.count += 1
            if self.count == self.interval:
                self.s *= self.growth
                self.count = 0
        self.unscaled = False

    def get_scale(self):
        return self.s


# === mutant: scale_forgotten -> loss-not-scaled
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss

    def unscale_(self, optimizer):
        self.found_inf = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad.mul_(1 / self.s)
                if not torch.isfinite(p.grad).all():
                    self.found_inf = True
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
            self.count = 0
        else:
            self.count += 1
            if self.count == self.interval:
                self.s *= self.growth
                self.count = 0
        self.unscaled = False

    def get_scale(self):
        return self.s


# === mutant: found_inf_for_ever -> found-inf-kept
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad.mul_(1 / self.s)
                if not torch.isfinite(p.grad).all():
                    self.found_inf = True
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
            self.count = 0
        else:
            self.count += 1
            if self.count == self.interval:
                self.s *= self.growth
                self.count = 0
        self.unscaled = False

    def get_scale(self):
        return self.s


# === mutant: counts_clean_steps_in_total -> counter-survives-overflow
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        self.found_inf = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad.mul_(1 / self.s)
                if not torch.isfinite(p.grad).all():
                    self.found_inf = True
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
        else:
            self.count += 1
            if self.count == self.interval:
                self.s *= self.growth
                self.count = 0
        self.unscaled = False

    def get_scale(self):
        return self.s


# === mutant: no_reset_after_growth -> counter-not-reset
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        self.found_inf = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad.mul_(1 / self.s)
                if not torch.isfinite(p.grad).all():
                    self.found_inf = True
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
            self.count = 0
        else:
            self.count += 1
            if self.count >= self.interval:
                self.s *= self.growth
        self.unscaled = False

    def get_scale(self):
        return self.s


# === mutant: more_than_the_interval -> grows-too-late
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        self.found_inf = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad.mul_(1 / self.s)
                if not torch.isfinite(p.grad).all():
                    self.found_inf = True
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
            self.count = 0
        else:
            self.count += 1
            if self.count > self.interval:
                self.s *= self.growth
                self.count = 0
        self.unscaled = False

    def get_scale(self):
        return self.s


# === mutant: no_patience -> grows-every-step
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        self.found_inf = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad.mul_(1 / self.s)
                if not torch.isfinite(p.grad).all():
                    self.found_inf = True
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
            self.count = 0
        else:
            self.s *= self.growth
        self.unscaled = False

    def get_scale(self):
        return self.s


# === mutant: no_update_method -> wrong-value
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        optimizer.step()


# === mutant: never_grows -> wrong-value
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.found_inf = False
        self.unscaled = False

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        self.found_inf = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad.mul_(1 / self.s)
                if not torch.isfinite(p.grad).all():
                    self.found_inf = True
        self.unscaled = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()

    def update(self):
        if self.found_inf:
            self.s *= self.backoff
            self.count = 0
        else:
            self.count += 1
        self.unscaled = False

    def get_scale(self):
        return self.s


# === mutant: torchs_own -> library-called
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.inner = torch.amp.GradScaler(
            "cpu", init_scale, growth_factor, backoff_factor, growth_interval
        )

    def __getattr__(self, name):
        return getattr(self.inner, name)


# === correct: tensors_and_foreach
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self._scale = torch.tensor(float(init_scale))
        self._settings = growth_factor, backoff_factor, growth_interval
        self._left = growth_interval
        self._stage, self._bad = "scaled", False

    def scale(self, loss):
        return self._scale * loss

    def unscale_(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        torch._foreach_mul_(grads, (1 / self._scale.double()).item())
        self._bad = not bool(torch.isfinite(torch.cat([g.flatten() for g in grads])).all())
        self._stage = "unscaled"

    def step(self, optimizer):
        if self._stage == "scaled":
            self.unscale_(optimizer)
        return None if self._bad else optimizer.step()

    def update(self):
        growth, backoff, interval = self._settings
        self._left = interval if self._bad else self._left - 1
        if self._bad:
            self._scale = self._scale * backoff
        elif self._left == 0:
            self._scale, self._left = self._scale * growth, interval
        self._stage, self._bad = "scaled", False

    def get_scale(self):
        return self._scale


# === correct: norm_tells
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.value, self.up, self.down = init_scale, growth_factor, backoff_factor
        self.interval, self.streak, self.norm = growth_interval, 0, None

    def scale(self, loss):
        return loss * self.value

    def unscale_(self, optimizer):
        self.norm = 0.0
        for p in (p for g in optimizer.param_groups for p in g["params"] if p.grad is not None):
            p.grad = p.grad / self.value
            self.norm += p.grad.abs().sum().item()

    def step(self, optimizer):
        if self.norm is None:
            self.unscale_(optimizer)
        if self.norm - self.norm == 0:  # neither inf nor NaN
            optimizer.step()

    def update(self):
        fine = self.norm - self.norm == 0
        self.streak = (self.streak + 1) % self.interval if fine else 0
        if not fine:
            self.value *= self.down
        elif self.streak == 0:
            self.value *= self.up
        self.norm = None

    def get_scale(self):
        return self.value

# === mutant: factors_taken_for_granted -> factors-ignored
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.current, self.interval, self.clean, self.bad = init_scale, growth_interval, 0, None

    def scale(self, loss):
        return loss * self.current

    def unscale_(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        torch._foreach_div_(grads, self.current)
        self.bad = not all(g.isfinite().all() for g in grads)

    def step(self, optimizer):
        if self.bad is None:
            self.unscale_(optimizer)
        if not self.bad:
            optimizer.step()

    def update(self):
        self.clean = 0 if self.bad else self.clean + 1
        if self.bad:
            self.current /= 2
        elif self.clean == self.interval:
            self.current, self.clean = self.current * 2, 0
        self.bad = None

    def get_scale(self):
        return self.current

# === correct: new_gradients_and_a_numpy_scale
import numpy as np


class OwnScaler:
    def __init__(self, *settings):
        scale, self.growth, self.backoff, self.interval = settings
        self.value = np.float32(scale)
        self.left, self.unscaled, self.bad = self.interval, set(), 0

    def scale(self, loss):
        return loss.mul(float(self.value))

    def unscale_(self, optimizer):
        self.unscaled.add(id(optimizer))
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = p.grad / float(self.value)
                    self.bad += (~p.grad.isfinite()).sum().item()

    def step(self, optimizer, *args):
        if id(optimizer) not in self.unscaled:
            self.unscale_(optimizer)
        return None if self.bad else optimizer.step(*args)

    def update(self):
        self.left = self.interval if self.bad else self.left - 1
        if self.bad:
            self.value *= np.float32(self.backoff)
        elif self.left == 0:
            self.value *= np.float32(self.growth)
            self.left = self.interval
        self.unscaled, self.bad = set(), 0

    def get_scale(self):
        return self.value


# === mutant: capped_at_65536 -> wrong-value
class OwnScaler:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.c = 0; self.found = None
    def scale(self, loss): return loss * self.s
    def unscale_(self, optimizer):
        self.found = False
        for p in optimizer.param_groups:
            for q in p["params"]:
                if q.grad is None: continue
                q.grad /= self.s
                if not torch.isfinite(q.grad).all(): self.found = True
    def step(self, optimizer):
        if self.found is None: self.unscale_(optimizer)
        if not self.found: optimizer.step()
    def update(self):
        if self.found:
            self.s = self.s * self.b; self.c = 0
        else:
            self.c += 1
            if self.c == self.n: self.s = min(self.s * self.g, 2.0**16); self.c = 0
        self.found = None
    def get_scale(self): return self.s
