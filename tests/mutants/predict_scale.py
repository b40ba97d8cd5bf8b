# === mutant: scale_that_was_used -> scale-before-update
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    s = init_scale
    n = 0
    out = []
    for inf in found_inf:
        out.append(s)
        if inf:
            s = s * backoff_factor
            n = 0
        else:
            n += 1
            if n == growth_interval:
                if s * growth_factor < 2.0**128:
                    s = s * growth_factor
                n = 0
    return out


# === mutant: overflow_keeps_the_count -> counter-kept
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    s = init_scale
    n = 0
    out = []
    for inf in found_inf:
        if inf:
            s = s * backoff_factor
        else:
            n += 1
            if n == growth_interval:
                if s * growth_factor < 2.0**128:
                    s = s * growth_factor
                n = 0
        out.append(s)
    return out


# === mutant: modulo_of_the_step -> every-nth-step
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    s = init_scale
    n = 0
    out = []
    for i, inf in enumerate(found_inf):
        if inf:
            s = s * backoff_factor
            n = 0
        else:
            if (i + 1) % growth_interval == 0:
                if s * growth_factor < 2.0**128:
                    s = s * growth_factor
                n = 0
        out.append(s)
    return out


# === mutant: grows_and_grows -> growth-without-reset
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    s = init_scale
    n = 0
    out = []
    for inf in found_inf:
        if inf:
            s = s * backoff_factor
            n = 0
        else:
            n += 1
            if n >= growth_interval:
                if s * growth_factor < 2.0**128:
                    s = s * growth_factor
        out.append(s)
    return out


# === mutant: after_the_interval -> one-step-late
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    s = init_scale
    n = 0
    out = []
    for inf in found_inf:
        if inf:
            s = s * backoff_factor
            n = 0
        else:
            n += 1
            if n > growth_interval:
                if s * growth_factor < 2.0**128:
                    s = s * growth_factor
                n = 0
        out.append(s)
    return out


# === mutant: each_clean_step -> growth-every-step
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    s = init_scale
    n = 0
    out = []
    for inf in found_inf:
        if inf:
            s = s * backoff_factor
            n = 0
        else:
            if True:
                if s * growth_factor < 2.0**128:
                    s = s * growth_factor
                n = 0
        out.append(s)
    return out


# === mutant: never_below_one -> floor-of-one
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    s = init_scale
    n = 0
    out = []
    for inf in found_inf:
        if inf:
            s = max(s * backoff_factor, 1.0)
            n = 0
        else:
            n += 1
            if n == growth_interval:
                if s * growth_factor < 2.0**128:
                    s = s * growth_factor
                n = 0
        out.append(s)
    return out


# === mutant: python_float_has_room -> no-ceiling
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    s = init_scale
    n = 0
    out = []
    for inf in found_inf:
        if inf:
            s = s * backoff_factor
            n = 0
        else:
            n += 1
            if n == growth_interval:
                s = s * growth_factor
                n = 0
        out.append(s)
    return out


# === mutant: powers_of_two_only -> wrong-value
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    s = init_scale
    n = 0
    out = []
    for inf in found_inf:
        if inf:
            s = s / 2
            n = 0
        else:
            n += 1
            if n == growth_interval:
                if s * growth_factor < 2.0**128:
                    s = s * 2
                n = 0
        out.append(s)
    return out


# === mutant: last_scale_only -> wrong-type
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    s = init_scale
    n = 0
    out = []
    for inf in found_inf:
        if inf:
            s = s * backoff_factor
            n = 0
        else:
            n += 1
            if n == growth_interval:
                if s * growth_factor < 2.0**128:
                    s = s * growth_factor
                n = 0
        out.append(s)
    return s


# === mutant: no_return -> returned-none
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    s = init_scale
    n = 0
    out = []
    for inf in found_inf:
        if inf:
            s = s * backoff_factor
            n = 0
        else:
            n += 1
            if n == growth_interval:
                if s * growth_factor < 2.0**128:
                    s = s * growth_factor
                n = 0
        out.append(s)


# === correct: in_float32
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    scale, streak, scales = torch.tensor(init_scale), 0, []
    for bad in found_inf:
        streak = 0 if bad else streak + 1
        factor = backoff_factor if bad else 1.0
        if streak == growth_interval:
            streak, factor = 0, growth_factor
        grown = scale * factor
        scale = grown if grown.isfinite() else scale
        scales.append(scale.item())
    return scales


# === correct: from_the_definition
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    from itertools import accumulate

    def update(state, bad):
        scale, clean = state
        if bad:
            return scale * backoff_factor, 0
        if clean + 1 < growth_interval:
            return scale, clean + 1
        return (scale * growth_factor if scale * growth_factor <= 3.4028e38 else scale), 0

    return [scale for scale, _ in accumulate(found_inf, update, initial=(init_scale, 0))][1:]

# === mutant: at_most_the_largest -> cut-at-the-top
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    scale, clean, scales = init_scale, 0, []
    for bad in found_inf:
        if bad:
            scale, clean = scale * backoff_factor, 0
        else:
            clean += 1
            if clean == growth_interval:
                scale = min(scale * growth_factor, torch.finfo(torch.float32).max)
                clean = 0
        scales.append(scale)
    return scales

# === mutant: pops_the_pattern -> changed-argument
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    scale, clean, scales = init_scale, 0, []
    while found_inf:
        if found_inf.pop(0):
            scale, clean = scale * backoff_factor, 0
        else:
            clean += 1
            if clean == growth_interval:
                clean = 0
                if scale * growth_factor < 2.0**128:
                    scale *= growth_factor
        scales.append(scale)
    return scales

# === correct: one_tensor
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    scales = torch.full((len(found_inf) + 1,), init_scale)
    clean = 0
    for step, bad in enumerate(found_inf):
        clean = 0 if bad else clean + 1
        factor = backoff_factor if bad else growth_factor if clean == growth_interval else 1.0
        clean %= growth_interval
        new = scales[step] * factor
        scales[step + 1] = new if new.isfinite() else scales[step]
    return scales[1:]


# === mutant: min_2_127 -> cut-at-the-top
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    s, c, out = init_scale, 0, []
    for f in found_inf:
        if f:
            s = s * backoff_factor; c = 0
        else:
            c += 1
            if c == growth_interval:
                c = 0
                s = min(s * growth_factor, 2.0**127)
        out.append(s)
    return out


# === mutant: stop_at_2_127 -> wrong-value
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    s, c, out = init_scale, 0, []
    for f in found_inf:
        if f:
            s = s * backoff_factor; c = 0
        else:
            c += 1
            if c == growth_interval:
                c = 0
                if s < 2.0**127: s *= growth_factor
        out.append(s)
    return out
