# === mutant: forgets_to_unscale -> not-unscaled
class StaticScaler:
    def __init__(self, scale):
        if not (scale > 0 and scale != float("inf") and math.log2(scale).is_integer()):
            raise ValueError("not a power of two")
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        if not all(torch.isfinite(g).all() for g in grads):
            return False
        optimizer.step()
        return True

# === mutant: unscales_what_it_never_scaled -> scale-forgotten
class StaticScaler:
    def __init__(self, scale):
        if not (scale > 0 and scale != float("inf") and math.log2(scale).is_integer()):
            raise ValueError("not a power of two")
        self.s = scale

    def scale(self, loss):
        return loss

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g /= self.s

        if not all(torch.isfinite(g).all() for g in grads):
            return False
        optimizer.step()
        return True

# === mutant: steps_always -> never-skips
class StaticScaler:
    def __init__(self, scale):
        if not (scale > 0 and scale != float("inf") and math.log2(scale).is_integer()):
            raise ValueError("not a power of two")
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g /= self.s

        optimizer.step()
        return True

# === mutant: looks_for_inf -> nan-slips-through
class StaticScaler:
    def __init__(self, scale):
        if not (scale > 0 and scale != float("inf") and math.log2(scale).is_integer()):
            raise ValueError("not a power of two")
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g /= self.s

        if any(torch.isinf(g).any() for g in grads):
            return False
        optimizer.step()
        return True

# === mutant: compares_with_the_largest_number -> nan-slips-through
class StaticScaler:
    def __init__(self, scale):
        if not (scale > 0 and scale != float("inf") and math.log2(scale).is_integer()):
            raise ValueError("not a power of two")
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g /= self.s

        if any(g.abs().max() == float("inf") for g in grads):
            return False
        optimizer.step()
        return True

# === mutant: looks_for_nan -> inf-slips-through
class StaticScaler:
    def __init__(self, scale):
        if not (scale > 0 and scale != float("inf") and math.log2(scale).is_integer()):
            raise ValueError("not a power of two")
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g /= self.s

        if any(torch.isnan(g).any() for g in grads):
            return False
        optimizer.step()
        return True

# === mutant: asks_the_loss -> loss-instead-of-gradients
class StaticScaler:
    def __init__(self, scale):
        if not (scale > 0 and scale != float("inf") and math.log2(scale).is_integer()):
            raise ValueError("not a power of two")
        self.s = scale

    def scale(self, loss):
        self.finite = bool(torch.isfinite(loss))
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g /= self.s

        if not self.finite:
            return False
        optimizer.step()
        return True

# === mutant: drops_the_bad_gradient -> skips-one-parameter
class StaticScaler:
    def __init__(self, scale):
        if not (scale > 0 and scale != float("inf") and math.log2(scale).is_integer()):
            raise ValueError("not a power of two")
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        fine = True
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.grad /= self.s
                if not torch.isfinite(p.grad).all():
                    p.grad = None
                    fine = False
        optimizer.step()
        return fine

# === mutant: nan_to_num -> zeros-instead-of-inf
class StaticScaler:
    def __init__(self, scale):
        if not (scale > 0 and scale != float("inf") and math.log2(scale).is_integer()):
            raise ValueError("not a power of two")
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g /= self.s

        fine = all(torch.isfinite(g).all() for g in grads)
        for g in grads:
            torch.nan_to_num(g, nan=0.0, posinf=0.0, neginf=0.0, out=g)
        optimizer.step()
        return bool(fine)

# === mutant: zero_grad_then_step -> step-with-zeros
class StaticScaler:
    def __init__(self, scale):
        if not (scale > 0 and scale != float("inf") and math.log2(scale).is_integer()):
            raise ValueError("not a power of two")
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g /= self.s

        fine = all(bool(torch.isfinite(g).all()) for g in grads)
        if not fine:
            optimizer.zero_grad(set_to_none=False)
        optimizer.step()
        return fine

# === mutant: takes_any_number -> any-scale
class StaticScaler:
    def __init__(self, scale):
        pass
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g /= self.s

        if not all(torch.isfinite(g).all() for g in grads):
            return False
        optimizer.step()
        return True

# === mutant: no_return -> says-nothing
class StaticScaler:
    def __init__(self, scale):
        if not (scale > 0 and scale != float("inf") and math.log2(scale).is_integer()):
            raise ValueError("not a power of two")
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g /= self.s

        if all(torch.isfinite(g).all() for g in grads):
            optimizer.step()

# === mutant: unscales_twice -> wrong-value
class StaticScaler:
    def __init__(self, scale):
        if not (scale > 0 and scale != float("inf") and math.log2(scale).is_integer()):
            raise ValueError("not a power of two")
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g /= self.s

        for g in grads:
            g /= self.s

        if all(torch.isfinite(g).all() for g in grads):
            optimizer.step()
            return True
        return False

# === mutant: positive_is_enough -> any-scale
class StaticScaler:
    def __init__(self, scale):
        if not 0 < scale < float("inf"):
            raise ValueError("positive, please")
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g /= self.s

        if not all(torch.isfinite(g).all() for g in grads):
            return False
        optimizer.step()
        return True

# === mutant: number_hides_the_method -> wrong-type
class StaticScaler:
    def __init__(self, scale):
        self.scale = scale

    def step(self, optimizer):
        optimizer.step()
        return True

# === mutant: first_group_of_parameters -> first-group-only
class StaticScaler:
    def __init__(self, scale):
        if not (scale > 0 and scale != float("inf") and math.log2(scale).is_integer()):
            raise ValueError("not a power of two")
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for p in optimizer.param_groups[0]["params"] if p.grad is not None]
        for g in grads:
            g /= self.s

        if not all(torch.isfinite(g).all() for g in grads):
            return False
        optimizer.step()
        return True


# === mutant: refuses_only_what_is_not_positive -> any-scale
class StaticScaler:
    def __init__(self, scale):
        if scale <= 0:
            raise ValueError("the scale must be positive")
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g /= self.s

        if not all(torch.isfinite(g).all() for g in grads):
            return False
        optimizer.step()
        return True



# === correct: asks_before_it_unscales
class StaticScaler:
    def __init__(self, scale):
        ok = scale > 0 and scale < float("inf")
        while ok and scale < 1:
            scale *= 2
            self.shrinks = True
        if not ok or int(scale) != scale or int(scale) & (int(scale) - 1):
            raise ValueError(scale)

    def __new__(cls, scale):
        self = super().__new__(cls)
        self.number = float(scale)
        return self

    def scale(self, loss):
        return self.number * loss

    def step(self, optimizer):
        found = 0.0
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    found += float((~torch.isfinite(p.grad)).sum())
                    p.grad = p.grad * (1 / self.number)
        if found:
            return False
        optimizer.step()
        return True

# === correct: by_the_norm_in_double
class StaticScaler:
    def __init__(self, scale):
        if scale not in [2.0**e for e in range(-126, 128)]:
            raise ValueError(f"{scale} is no power of two")
        self._scale = scale

    def scale(self, loss):
        return loss * self._scale

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        torch._foreach_div_(grads, self._scale)
        norm = sum(g.double().abs().sum() for g in grads).item()
        if not math.isfinite(norm):
            return False
        optimizer.step()
        return True


# === correct: says_it_with_a_tensor
class StaticScaler:
    def __init__(self, scale):
        if not (scale > 0 and scale != float("inf") and math.log2(scale).is_integer()):
            raise ValueError("not a power of two")
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    @torch.no_grad()
    def step(self, optimizer):
        fine = torch.tensor(True)
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.mul_(1 / self.s)
                    fine = fine & p.grad.isfinite().all()
        if fine:
            optimizer.step()
        return fine


# === mutant: loss_multiplied_in_place -> loss-changed
class StaticScaler:
    def __init__(self, scale):
        if not 0 < scale < math.inf or math.frexp(scale)[0] != 0.5:
            raise ValueError("power of two, please")
        self.s = scale

    def scale(self, loss):
        loss *= self.s
        return loss

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g.div_(self.s)
        if not all(g.isfinite().all() for g in grads):
            return False
        optimizer.step()
        return True


# === mutant: returns_found_inf -> says-the-opposite
class StaticScaler:
    def __init__(self, scale):
        if not 0 < scale < math.inf or math.frexp(scale)[0] != 0.5:
            raise ValueError("power of two, please")
        self.s = scale

    def scale(self, loss):
        return loss * self.s

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g.div_(self.s)
        found_inf = any(not g.isfinite().all() for g in grads)
        if not found_inf:
            optimizer.step()
        return found_inf


# === correct: amp_kernel
class StaticScaler:
    def __init__(self, scale):
        mantissa, _ = math.frexp(scale)
        if mantissa != 0.5:
            raise ValueError(f"{scale!r} is not a positive power of two")
        self._s = float(scale)

    def scale(self, loss):
        return torch.mul(loss, self._s)

    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        found = torch.zeros(1)
        torch._amp_foreach_non_finite_check_and_unscale_(grads, found, torch.full((1,), 1 / self._s))
        if found.item():
            return False
        optimizer.step()
        return True
