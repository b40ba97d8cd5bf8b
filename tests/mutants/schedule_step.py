# === mutant: always_steps -> scheduler-runs-ahead
def schedule_step(scaler, optimizer, scheduler):
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    skipped = scaler.get_scale() < before
    scheduler.step()
    return not skipped


# === mutant: as_without_a_scaler -> scheduler-runs-ahead
def schedule_step(scaler, optimizer, scheduler):
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    return True


# === mutant: any_change -> growth-taken-for-skip
def schedule_step(scaler, optimizer, scheduler):
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    skipped = scaler.get_scale() != before
    if not skipped:
        scheduler.step()
    return not skipped


# === mutant: between_step_and_update -> scheduler-runs-ahead
def schedule_step(scaler, optimizer, scheduler):
    before = scaler.get_scale()
    scaler.step(optimizer)
    skipped = scaler.get_scale() < before
    scaler.update()
    if not skipped:
        scheduler.step()
    return not skipped


# === mutant: result_of_step -> return-value-asked
def schedule_step(scaler, optimizer, scheduler):
    before = scaler.get_scale()
    skipped = scaler.step(optimizer) is None
    scaler.update()
    if not skipped:
        scheduler.step()
    return not skipped


# === mutant: signs_mixed_up -> inverted
def schedule_step(scaler, optimizer, scheduler):
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    skipped = not scaler.get_scale() < before
    if not skipped:
        scheduler.step()
    return not skipped


# === mutant: schedule_then_step -> scheduler-first
def schedule_step(scaler, optimizer, scheduler):
    scheduler.step()
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    skipped = scaler.get_scale() < before
    return not skipped


# === mutant: no_update -> update-forgotten
def schedule_step(scaler, optimizer, scheduler):
    before = scaler.get_scale()
    scaler.step(optimizer)
    skipped = scaler.get_scale() < before
    if not skipped:
        scheduler.step()
    return not skipped


# === mutant: returns_skipped -> answer-inverted
def schedule_step(scaler, optimizer, scheduler):
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    skipped = scaler.get_scale() < before
    if not skipped:
        scheduler.step()
    return skipped


# === correct: hook_on_the_optimizer
def schedule_step(scaler, optimizer, scheduler):
    stepped = []
    handle = optimizer.register_step_post_hook(lambda *_: stepped.append(True))
    scaler.step(optimizer)
    handle.remove()
    scaler.update()
    if stepped:
        scheduler.step()
    return bool(stepped)


# === correct: gradients_are_asked
def schedule_step(scaler, optimizer, scheduler):
    scaler.unscale_(optimizer)
    grads = [p.grad for g in optimizer.param_groups for p in g["params"]]
    real = all(bool(torch.isfinite(g).all()) for g in grads)
    scaler.step(optimizer)
    if real:
        scheduler.step()
    scaler.update()
    return real

# === mutant: nothing_returned -> answer-missing
def schedule_step(scaler, optimizer, scheduler):
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= before:
        scheduler.step()

# === mutant: optimizer_step_by_hand -> optimizer-stepped-directly
def schedule_step(scaler, optimizer, scheduler):
    before = scaler.get_scale()
    scaler.unscale_(optimizer)
    optimizer.step()
    scaler.update()
    if scaler.get_scale() < before:
        return False
    scheduler.step()
    return True

# === mutant: read_twice_after_update -> scheduler-runs-ahead
def schedule_step(scaler, optimizer, scheduler):
    scaler.step(optimizer)
    scaler.update()
    before = scaler.get_scale()
    stepped = scaler.get_scale() >= before
    if stepped:
        scheduler.step()
    return stepped

# === mutant: true_whatever_happened -> wrong-value
def schedule_step(scaler, optimizer, scheduler):
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= before:
        scheduler.step()
    return True

# === correct: numpy_bool
import numpy as np


def schedule_step(scaler, optimizer, scheduler):
    scales = [scaler.get_scale()]
    scaler.step(optimizer)
    scaler.update()
    scales.append(scaler.get_scale())
    stepped = np.diff(scales)[0] >= 0
    if stepped:
        scheduler.step()
    return stepped

# === correct: tensor_of_bool
def schedule_step(scaler, optimizer, scheduler):
    scaler.unscale_(optimizer)
    gradients = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
    stepped = torch.stack([g.isfinite().all() for g in gradients]).all()
    scaler.step(optimizer)
    scaler.update()
    if stepped:
        scheduler.step()
    return stepped


# === mutant: remembers_last -> wrong-value
def schedule_step(scaler, optimizer, scheduler):
    scaler.step(optimizer)
    scaler.update()
    now = scaler.get_scale()
    last = getattr(schedule_step, "last", now)
    schedule_step.last = now
    if now >= last:
        scheduler.step()
        return True
    return False


# === mutant: isinf_only -> wrong-value
def schedule_step(scaler, optimizer, scheduler):
    scaler.unscale_(optimizer)
    bad = any(p.grad.isinf().any() for g in optimizer.param_groups for p in g["params"])
    scaler.step(optimizer)
    scaler.update()
    if not bad: scheduler.step()
    return not bad


# === mutant: sets_lr_back -> wrong-value
def schedule_step(scaler, optimizer, scheduler):
    b = scaler.get_scale()
    lr = optimizer.param_groups[0]["lr"]
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    if scaler.get_scale() < b:
        optimizer.param_groups[0]["lr"] = lr
        return False
    return True


# === mutant: compares_65536 -> return-value-asked
def schedule_step(scaler, optimizer, scheduler):
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() < 65536.0: return False
    scheduler.step()
    return True
