# === mutant: minus_a_billion -> fill-does-not-fit
def masked_softmax(scores, keep):
    return torch.softmax(scores.masked_fill(keep == 0, -1e9), dim=-1)


# === mutant: minus_infinity -> fill-is-infinite
def masked_softmax(scores, keep):
    masked = torch.where(keep, scores, torch.tensor(float("-inf"), dtype=scores.dtype))
    return masked.softmax(-1)


# === mutant: lowest_half_everywhere -> fill-from-another-dtype
def masked_softmax(scores, keep):
    return scores.masked_fill(~keep, -65504).softmax(dim=-1)


# === mutant: times_the_mask -> masked-by-zero
def masked_softmax(scores, keep):
    return torch.softmax(scores * keep.to(scores.dtype), dim=-1)


# === mutant: filled_with_zero -> masked-by-zero
def masked_softmax(scores, keep):
    return torch.softmax(scores.masked_fill(~keep, 0), dim=-1)


# === mutant: minus_ten_thousand -> fill-from-another-dtype
def masked_softmax(scores, keep):
    return torch.softmax(torch.where(keep, scores, torch.full_like(scores, -1e4)), dim=-1)


# === mutant: a_billion_in_float32 -> fill-from-another-dtype
def masked_softmax(scores, keep):
    return torch.softmax(scores.float().masked_fill(~keep, -1e9), -1).to(scores.dtype)


# === mutant: nan_to_zero -> empty-row-zero
def masked_softmax(scores, keep):
    return scores.masked_fill(~keep, float("-inf")).softmax(dim=-1).nan_to_num()


# === mutant: mask_after_softmax -> not-renormalised
def masked_softmax(scores, keep):
    return torch.softmax(scores, dim=-1).masked_fill(~keep, 0)


# === mutant: additive_mask -> mask-added
def masked_softmax(scores, keep):
    bias = (1 - keep.to(scores.dtype)) * torch.finfo(scores.dtype).min
    return torch.softmax(scores + bias, dim=-1)


# === mutant: keep_and_drop_mixed_up -> mask-inverted
def masked_softmax(scores, keep):
    return torch.softmax(scores.masked_fill(keep, torch.finfo(scores.dtype).min), dim=-1)


# === mutant: fills_in_place -> changed-argument
def masked_softmax(scores, keep):
    scores.masked_fill_(~keep, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1)


# === mutant: over_the_rows -> wrong-value
def masked_softmax(scores, keep):
    return torch.softmax(scores.masked_fill(~keep, torch.finfo(scores.dtype).min), dim=0)


# === correct: where_and_own_softmax
def masked_softmax(scores, keep):
    lowest = torch.full_like(scores, torch.finfo(scores.dtype).min)
    x = torch.where(keep, scores, lowest).float()
    e = torch.exp(x - x.max(-1, keepdim=True).values)
    return (e / e.sum(-1, keepdim=True)).to(scores.dtype)


# === correct: nan_repaired
def masked_softmax(scores, keep):
    p = torch.softmax(scores.float().masked_fill(~keep, float("-inf")), dim=-1)
    return torch.where(p.isnan(), torch.full_like(p, 1 / p.shape[-1]), p).to(scores.dtype)
