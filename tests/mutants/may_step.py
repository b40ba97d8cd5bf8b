# === mutant: as_on_one_gpu -> local-decision
def may_step(gradients, scale, all_reduce):
    ok = True
    for g in gradients:
        g.div_(scale)
        ok = ok and bool(torch.isfinite(g).all())
    return ok


# === mutant: tell_the_others_if_bad -> collective-in-a-branch
def may_step(gradients, scale, all_reduce):
    found = torch.zeros(1)
    for g in gradients:
        g /= scale
        if not torch.isfinite(g).all():
            found[0] = 1
    if found.item():
        all_reduce(found)
    return found.item() == 0


# === mutant: nothing_to_do_here -> collective-in-a-branch
def may_step(gradients, scale, all_reduce):
    if sum(g.numel() for g in gradients) == 0:
        return True
    found = torch.zeros(1)
    for g in gradients:
        g /= scale
        if not torch.isfinite(g).all():
            found[0] = 1
    all_reduce(found)
    return found.item() == 0


# === mutant: max_of_finite -> one-good-rank-is-enough
def may_step(gradients, scale, all_reduce):
    for g in gradients:
        g /= scale
    finite = torch.tensor(all(g.isfinite().all() for g in gradients)).int()
    all_reduce(finite, op=dist.ReduceOp.MAX)
    return bool(finite)


# === mutant: min_of_found -> one-good-rank-is-enough
def may_step(gradients, scale, all_reduce):
    for g in gradients:
        g /= scale
    found = torch.tensor(any((~g.isfinite()).any() for g in gradients)).float()
    all_reduce(found, op=dist.ReduceOp.MIN)
    return not bool(found)


# === mutant: as_ddp_does -> shards-added-up
def may_step(gradients, scale, all_reduce):
    ok = True
    for g in gradients:
        g /= scale
        all_reduce(g)
        ok = ok and bool(g.isfinite().all())
    return ok


# === mutant: infinities_only -> nan-missed
def may_step(gradients, scale, all_reduce):
    found = torch.zeros(())
    for g in gradients:
        g /= scale
        found += g.isinf().any()
    all_reduce(found)
    return found.item() == 0


# === mutant: still_scaled -> not-unscaled
def may_step(gradients, scale, all_reduce):
    found = torch.zeros(())
    for g in gradients:
        g = g / scale
        found += (~g.isfinite()).any()
    all_reduce(found)
    return found.item() == 0


# === mutant: returns_found_inf -> inverted
def may_step(gradients, scale, all_reduce):
    found = torch.zeros(())
    for g in gradients:
        g /= scale
        found += (~g.isfinite()).any()
    all_reduce(found)
    return found.item() > 0


# === mutant: a_call_for_each_gradient -> collective-in-a-branch
def may_step(gradients, scale, all_reduce):
    ok = True
    for g in gradients:
        g /= scale
        found = (~g.isfinite()).any().float()
        all_reduce(found, op=dist.ReduceOp.MAX)
        ok = ok and not found
    return bool(ok)


# === mutant: an_empty_list_returns_early -> collective-in-a-branch
def may_step(gradients, scale, all_reduce):
    if not gradients:
        return True
    found = torch.zeros(1)
    for g in gradients:
        g /= scale
        found += (~g.isfinite()).any()
    all_reduce(found)
    return found.item() == 0


# === mutant: new_tensors_in_the_list -> not-unscaled
def may_step(gradients, scale, all_reduce):
    found = torch.zeros(1)
    for i, g in enumerate(gradients):
        gradients[i] = g / scale
        found += (~g.isfinite()).any()
    all_reduce(found)
    return found.item() == 0


# === mutant: a_flag_for_each_gradient -> wrong-value
def may_step(gradients, scale, all_reduce):
    for g in gradients:
        g /= scale
    flags = torch.tensor([float(g.isfinite().all()) for g in gradients])
    all_reduce(flags, op=dist.ReduceOp.MIN)
    return bool((flags == 1).all())


# === mutant: is_the_norm_finite -> finite-refused
def may_step(gradients, scale, all_reduce):
    total = torch.zeros(())
    for g in gradients:
        g /= scale
        total += g.norm() ** 2
    all_reduce(total)
    return bool(torch.isfinite(total))


# === mutant: largest_in_half -> finite-refused
def may_step(gradients, scale, all_reduce):
    m = torch.zeros((), dtype=torch.float16)
    for g in gradients:
        g /= scale
        if g.numel():
            m = torch.maximum(m, g.abs().max().half())
    all_reduce(m, op=dist.ReduceOp.MAX)
    return bool(m.isfinite())


# === mutant: an_exception_instead -> collective-in-a-branch
def may_step(gradients, scale, all_reduce):
    try:
        for g in gradients:
            g /= scale
            if not g.isfinite().all():
                raise OverflowError
    except OverflowError:
        return False
    ok = torch.ones(())
    all_reduce(ok, op=dist.ReduceOp.MIN)
    return bool(ok)


# === correct: the_smallest_finite
def may_step(gradients, scale, all_reduce):
    finite = torch.ones(1, dtype=torch.int32)
    for g in gradients:
        g.mul_(1 / scale)
        finite *= int(torch.isfinite(g).all())
    all_reduce(finite, dist.ReduceOp.MIN)
    return finite == 1


# === correct: sum_of_the_norms
def may_step(gradients, scale, all_reduce):
    total = torch.zeros((), dtype=torch.float64)
    for g in gradients:
        g.div_(scale)
        total += g.double().square().sum()
    all_reduce(total)
    return bool(total.isfinite())


# === correct: with_torchs_own_operation
def may_step(gradients, scale, all_reduce):
    found_inf = torch.zeros(1)
    if gradients:
        torch._amp_foreach_non_finite_check_and_unscale_(
            gradients, found_inf, torch.tensor(1.0 / scale)
        )
    all_reduce(found_inf, op=dist.ReduceOp.MAX)
    return not found_inf.item()


# === correct: times_zero
def may_step(gradients, scale, all_reduce):
    probe = torch.zeros(1)
    for g in gradients:
        g.copy_(g / scale)
        probe += (g * 0).sum()
    all_reduce(tensor=probe)
    return (probe == 0).item()
