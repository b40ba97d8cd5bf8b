# === mutant: only_the_defaults -> never-provoked
def missing_ingredient(run):
    o = run()
    if (o.gradient == 0).all():
        return "loss scaling"
    if (o.before == o.after).all():
        return "master weights"
    if not math.isfinite(o.loss):
        return "wide accumulation"
    return "nothing"


# === mutant: gradients_only_somewhat_small -> zeros-overlooked
def missing_ingredient(run):
    if (run(loss_factor=1e-3).gradient == 0).all():
        return "loss scaling"
    slow = run(lr=2.0**-16, steps=1000)
    if torch.equal(slow.before, slow.after):
        return "master weights"
    return "nothing" if math.isclose(run(repeats=3000).loss, run().loss, rel_tol=0.05) else "wide accumulation"


# === mutant: ordinary_learning_rate -> stall-overlooked
def missing_ingredient(run):
    if (run(loss_factor=2.0**-32).gradient == 0).all():
        return "loss scaling"
    o = run(lr=2.0**-6, steps=50)
    if torch.equal(o.before, o.after):
        return "master weights"
    return "nothing" if math.isclose(run(repeats=3000).loss, run().loss, rel_tol=0.05) else "wide accumulation"


# === mutant: waits_for_inf -> sums-overlooked
def missing_ingredient(run):
    if (run(loss_factor=2.0**-32).gradient == 0).all():
        return "loss scaling"
    slow = run(lr=2.0**-16, steps=1000)
    if torch.equal(slow.before, slow.after):
        return "master weights"
    return "nothing" if math.isfinite(run(repeats=5000).loss) else "wide accumulation"


# === mutant: a_batch_too_small -> sums-overlooked
def missing_ingredient(run):
    if (run(loss_factor=2.0**-32).gradient == 0).all():
        return "loss scaling"
    slow = run(lr=2.0**-16, steps=1000)
    if torch.equal(slow.before, slow.after):
        return "master weights"
    return "nothing" if math.isclose(run(repeats=10).loss, run().loss, rel_tol=0.05) else "wide accumulation"


# === mutant: one_small_step -> copies-expected-to-move
def missing_ingredient(run):
    if (run(loss_factor=2.0**-32).gradient == 0).all():
        return "loss scaling"
    slow = run(lr=2.0**-16, steps=1)
    if torch.equal(slow.before, slow.after):
        return "master weights"
    return "nothing" if math.isclose(run(repeats=3000).loss, run().loss, rel_tol=0.05) else "wide accumulation"


# === mutant: one_small_step_asked_last -> copies-expected-to-move
def missing_ingredient(run):
    if (run(loss_factor=2.0**-32).gradient == 0).all():
        return "loss scaling"
    if abs(run(repeats=3000).loss / run().loss - 1) > 0.1:
        return "wide accumulation"
    slow = run(lr=2.0**-16)
    return "master weights" if torch.equal(slow.before, slow.after) else "nothing"


# === mutant: looks_at_the_weights_first -> weights-before-gradients
def missing_ingredient(run):
    o = run(loss_factor=2.0**-32, lr=2.0**16, steps=1000)
    if torch.equal(o.before, o.after):
        return "master weights"
    if (o.gradient == 0).all():
        return "loss scaling"
    if abs(run(repeats=3000).loss / run().loss - 1) > 0.1:
        return "wide accumulation"
    return "nothing"


# === mutant: a_stall_is_an_underflow -> gradients-before-weights
def missing_ingredient(run):
    slow = run(lr=2.0**-16, steps=1000)
    tiny = run(loss_factor=2.0**-32)
    if torch.equal(slow.before, slow.after) or (tiny.gradient == 0).all():
        return "loss scaling"
    if abs(run(repeats=3000).loss / run().loss - 1) > 0.1:
        return "wide accumulation"
    return "nothing"


# === mutant: any_zero -> one-zero-is-enough
def missing_ingredient(run):
    if (run(loss_factor=2.0**-32).gradient == 0).any():
        return "loss scaling"
    slow = run(lr=2.0**-16, steps=1000)
    if torch.equal(slow.before, slow.after):
        return "master weights"
    if abs(run(repeats=3000).loss / run().loss - 1) > 0.1:
        return "wide accumulation"
    return "nothing"


# === mutant: any_stall -> one-stall-is-enough
def missing_ingredient(run):
    if (run(loss_factor=2.0**-32).gradient == 0).all():
        return "loss scaling"
    slow = run(lr=2.0**-16, steps=1000)
    if (slow.before == slow.after).any():
        return "master weights"
    if abs(run(repeats=3000).loss / run().loss - 1) > 0.1:
        return "wide accumulation"
    return "nothing"


# === mutant: a_number_instead -> wrong-type
def missing_ingredient(run):
    return 2


# === mutant: a_factor_that_no_scale_survives -> provoked-too-hard
def missing_ingredient(run):
    if (run(loss_factor=1e-14).gradient == 0).all():
        return "loss scaling"
    slow = run(lr=2.0**-16, steps=1000)
    if torch.equal(slow.before, slow.after):
        return "master weights"
    if abs(run(repeats=3000).loss / run().loss - 1) > 0.1:
        return "wide accumulation"
    return "nothing"


# === mutant: everything_lacks_sums -> wrong-value
def missing_ingredient(run):
    return "wide accumulation"



# === correct: other_experiments
def missing_ingredient(run):
    alive = run().gradient != 0
    if not (run(loss_factor=2.0**-30).gradient[alive] != 0).all():
        return "loss scaling"
    once, often = run(repeats=1), run(repeats=5000)
    if often.loss < 0.8 * once.loss:
        return "wide accumulation"
    long = run(lr=2.0**-15, steps=500)
    moved = (long.before != long.after)[alive]
    return "nothing" if moved.any() else "Master weights"


# === correct: all_at_once
def missing_ingredient(run):
    slow, big = run(lr=2.0**-17, steps=2000), run(repeats=1500)
    return {
        (True, False, False): "loss scaling",
        (False, True, False): "master weights",
        (False, False, True): "wide accumulation",
        (False, False, False): "nothing",
    }[
        run(loss_factor=2.0**-33).gradient.count_nonzero().item() == 0,
        (slow.after - slow.before).abs().sum().item() == 0,
        abs(big.loss - run().loss) > 0.2,
    ]


# === correct: enum
from enum import StrEnum


class Lack(StrEnum):
    SCALE = "loss scaling"
    MASTER = "master weights"
    WIDE = "wide accumulation"
    NONE = "nothing"


def missing_ingredient(run):
    if run(loss_factor=2.0**-32).gradient.count_nonzero() == 0:
        return Lack.SCALE
    o = run(lr=2.0**-16, steps=1000)
    if torch.equal(o.before, o.after):
        return Lack.MASTER
    return Lack.WIDE if abs(run(repeats=2000).loss - run().loss) > 0.1 * run().loss else Lack.NONE
