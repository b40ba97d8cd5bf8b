# === mutant: textbook_formula -> no-shift
def log_softmax(logits):
    return logits - torch.log(torch.sum(torch.exp(logits), dim=-1, keepdim=True))


# === mutant: float64_is_wide_enough -> no-shift
def log_softmax(logits):
    x = logits.double()
    return (x - x.exp().sum(-1, keepdim=True).log()).to(logits.dtype)


# === mutant: logarithm_of_float64_probabilities -> log-of-softmax
def log_softmax(logits):
    return torch.softmax(logits.double(), dim=-1).log().to(logits.dtype)


# === mutant: logarithm_of_probabilities -> log-of-softmax
def log_softmax(logits):
    return torch.log(torch.softmax(logits, dim=-1))


# === mutant: eps_against_log_zero -> log-plus-eps
def log_softmax(logits):
    eps = 1e-8
    return torch.log(torch.softmax(logits, dim=-1) + eps)


# === mutant: logsumexp_by_hand -> shift-added-back
def log_softmax(logits):
    m = logits.max(dim=-1, keepdim=True)[0]
    logsumexp = m + torch.log(torch.sum(torch.exp(logits - m), dim=-1, keepdim=True))
    return logits - logsumexp


# === mutant: maximum_of_everything -> one-shift-for-all
def log_softmax(logits):
    logits = logits - torch.max(logits)
    return logits - torch.log(logits.exp().sum(-1, keepdim=True))


# === mutant: over_the_batch -> wrong-dimension
def log_softmax(logits):
    m, _ = torch.max(logits, dim=0, keepdim=True)
    z = logits - m
    return z - z.exp().sum(dim=0, keepdim=True).log()


# === mutant: shift_only_inside -> shift-not-subtracted
def log_softmax(logits):
    m = logits.amax(dim=-1, keepdim=True)
    return logits - torch.log(torch.exp(logits - m).sum(dim=-1, keepdim=True))


# === mutant: library -> library-called
def log_softmax(logits):
    return torch.nn.functional.log_softmax(logits, dim=-1)


# === mutant: logsumexp -> library-called
def log_softmax(logits):
    return logits - logits.logsumexp(dim=-1, keepdim=True)


# === mutant: result_in_float32 -> wrong-type
def log_softmax(logits):
    x = logits.float()
    x = x - x.max(-1, keepdim=True).values
    return x - x.exp().sum(-1, keepdim=True).log()


# === mutant: in_place -> changed-argument
def log_softmax(logits):
    logits -= logits.max(dim=-1, keepdim=True).values
    return logits - logits.exp().sum(dim=-1, keepdim=True).log()


# === correct: computed_in_float32
def log_softmax(logits):
    wide = logits.float()
    top = wide.amax(-1, keepdim=True)
    return (wide - top - (wide - top).exp().sum(-1, keepdim=True).log()).to(logits.dtype)


# === correct: row_by_row
def log_softmax(logits):
    rows = []
    for row in logits:
        moved = row - row.max()
        rows.append(moved - torch.log(torch.exp(moved).sum()))
    return torch.stack(rows)
