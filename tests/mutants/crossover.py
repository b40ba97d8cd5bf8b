# === mutant: ceiling -> equal-is-not-less
def crossover(added, fp32_each, amp_each):
    if amp_each >= fp32_each:
        return None
    return max(-(-added // (fp32_each - amp_each)), 1)


# === mutant: floor -> rounded-down
def crossover(added, fp32_each, amp_each):
    gain = fp32_each - amp_each
    return None if gain <= 0 else added // gain


# === mutant: the_quotient -> not-whole
def crossover(added, fp32_each, amp_each):
    gain = fp32_each - amp_each
    return None if gain <= 0 else added / gain


# === mutant: by_fp32 -> own-bytes-forgotten
def crossover(added, fp32_each, amp_each):
    return added // fp32_each + 1


# === mutant: no_never -> never-forgotten
def crossover(added, fp32_each, amp_each):
    return added // (fp32_each - amp_each) + 1


# === mutant: never_is_inf -> never-forgotten
def crossover(added, fp32_each, amp_each):
    gain = fp32_each - amp_each
    return float("inf") if gain <= 0 else added // gain + 1


# === mutant: never_only_where_equal -> never-forgotten
def crossover(added, fp32_each, amp_each):
    if fp32_each == amp_each:
        return None
    return added // (fp32_each - amp_each) + 1


# === correct: searches
def crossover(added, fp32_each, amp_each):
    def less(batch):
        return added + amp_each * batch < fp32_each * batch

    high = 1
    while not less(high):
        high *= 2
        if high > 2**60:
            return None
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if less(middle) else (middle, high)
    return high


# === mutant: never_only_where_amp_needs_more -> never-forgotten
def crossover(added, fp32_each, amp_each):
    if amp_each > fp32_each:
        return None
    return added // (fp32_each - amp_each) + 1


# === mutant: gives_up_early -> wrong-value
def crossover(added, fp32_each, amp_each):
    for batch in range(1, 100_000):
        if added + amp_each * batch < fp32_each * batch:
            return batch
    return None


# === mutant: return_forgotten -> returned-none
def crossover(added, fp32_each, amp_each):
    gain = fp32_each - amp_each
    batch = added // gain + 1 if gain > 0 else None


# === correct: one_byte_more_in_fractions
def crossover(added, fp32_each, amp_each):
    import math
    from fractions import Fraction

    if fp32_each <= amp_each:
        return None
    return math.ceil(Fraction(added + 1, fp32_each - amp_each))
