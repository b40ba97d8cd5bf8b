# === mutant: torchs_own -> eps-underflows
def unit_rows(x):
    return F.normalize(x, dim=-1)


# === mutant: eps_of_float32 -> eps-underflows
def unit_rows(x):
    return x / (torch.linalg.vector_norm(x, dim=1, keepdim=True) + 1e-8)


# === mutant: squares_and_an_eps -> eps-underflows
def unit_rows(x):
    return x * (x.pow(2).sum(-1, keepdim=True) + 1e-8).sqrt().reciprocal()


# === mutant: eps_from_the_dtype -> length-overflows
def unit_rows(x):
    return x / x.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)


# === mutant: squares_in_half -> length-overflows
def unit_rows(x):
    length = torch.sqrt((x * x).sum(dim=-1, keepdim=True)).clamp(min=1e-6)
    return x / length


# === mutant: eps_under_the_root -> eps-too-large
def unit_rows(x):
    w = x.float()
    return (w / torch.sqrt((w**2).sum(dim=-1, keepdim=True) + 1e-6)).to(x.dtype)


# === mutant: generous_eps -> eps-too-large
def unit_rows(x):
    w = x.float()
    return (w / (w.norm(dim=-1, keepdim=True) + 1e-3)).to(x.dtype)


# === mutant: no_eps_at_all -> no-eps
def unit_rows(x):
    w = x.float()
    return (w / w.norm(dim=-1, keepdim=True)).to(x.dtype)


# === mutant: keepdim_forgotten_in_spirit -> one-length-for-all
def unit_rows(x):
    w = x.float()
    return (w / torch.linalg.norm(w).clamp(min=1e-6)).to(x.dtype)


# === mutant: float32_returned -> wrong-type
def unit_rows(x):
    return F.normalize(x.float(), dim=-1)


# === mutant: divides_in_place -> changed-argument
def unit_rows(x):
    x /= x.float().norm(dim=-1, keepdim=True).clamp_min(1e-6)
    return x


# === correct: torchs_own_in_float32
def unit_rows(x):
    return F.normalize(x.float(), dim=-1).to(x.dtype)


# === correct: largest_entry_first
def unit_rows(x):
    largest = x.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
    y = x / largest
    return y / y.norm(dim=-1, keepdim=True).clamp_min(0.5)


# === correct: zeros_by_where
def unit_rows(x):
    w = x.double()
    length = torch.sqrt((w * w).sum(-1, keepdim=True))
    return torch.where(length > 0, w / length, torch.zeros_like(w)).to(x.dtype)


# === correct: small_eps_in_float32
def unit_rows(x):
    w = x.float()
    return (w / (w.norm(dim=-1, keepdim=True) + 1e-8)).type_as(x)


# === mutant: length_cast_back -> length-overflows
def unit_rows(x):
    length = x.float().norm(dim=-1, keepdim=True).clamp_min(1e-6)
    return x / length.to(x.dtype)


# === mutant: eps_that_is_not_the_smallest_number -> eps-too-large
def unit_rows(x):
    w = x.float()
    return (w / (w.norm(dim=-1, keepdim=True) + torch.finfo(x.dtype).eps)).to(x.dtype)


# === mutant: sum_of_the_absolute_values -> another-measure
def unit_rows(x):
    return F.normalize(x.float(), p=1, dim=-1).to(x.dtype)


# === mutant: root_forgotten -> another-measure
def unit_rows(x):
    w = x.float()
    return (w / (w * w).sum(-1, keepdim=True).clamp(min=1e-12)).to(x.dtype)


# === correct: nan_replaced
def unit_rows(x):
    w = x.float()
    return torch.nan_to_num(w / w.norm(dim=-1, keepdim=True)).to(x.dtype)


# === correct: row_by_row
def unit_rows(x):
    rows = [row / (row.norm() or 1.0) for row in x.double()]
    return torch.stack(rows).to(x.dtype)


# === correct: length_with_a_dtype
def unit_rows(x):
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    return (x / length.clamp_min(1e-6)).to(x.dtype)


# === mutant: zeros_found_by_their_sum -> wrong-value
def unit_rows(x):
    w = x.float()
    zeros = w.sum(-1, keepdim=True) == 0
    return torch.where(zeros, 0.0, w / w.norm(dim=-1, keepdim=True)).to(x.dtype)


# === mutant: zeros_found_by_their_first_entry -> wrong-value
def unit_rows(x):
    w = x.float()
    unit = w / w.norm(dim=-1, keepdim=True)
    unit[x[:, 0] == 0] = 0
    return unit.to(x.dtype)


# === correct: plain_python
def unit_rows(x):
    import math

    rows = []
    for row in x.tolist():
        length = math.hypot(*row) or 1.0
        rows.append([entry / length for entry in row])
    return torch.tensor(rows, dtype=x.dtype)


# === mutant: zeros_found_by_their_maximum -> wrong-value
def unit_rows(x):
    w = x.float()
    zeros = w.max(-1, keepdim=True).values <= 0
    return torch.where(zeros, 0.0, w / w.norm(dim=-1, keepdim=True)).to(x.dtype)
