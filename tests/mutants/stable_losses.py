# === mutant: eps_of_1e_7 -> gradient-not-finite
def click_loss(logits, targets):
    p = torch.sigmoid(logits)
    eps = 1e-7
    return -(targets * torch.log(p + eps) + (1 - targets) * torch.log(1 - p + eps)).mean().float()


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: cast_between_the_steps -> gradient-not-finite
def click_loss(logits, targets):
    return F.binary_cross_entropy(torch.sigmoid(logits).float(), targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: probability_clamped -> loss-off
def click_loss(logits, targets):
    p = torch.sigmoid(logits.float()).clamp(1e-4, 1 - 1e-4)
    return F.binary_cross_entropy(p, targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: loss_patched_afterwards -> gradient-not-finite
def click_loss(logits, targets):
    right = F.binary_cross_entropy_with_logits(logits.detach().float(), targets)
    p = torch.sigmoid(logits)
    wrong = -(targets * p.log() + (1 - targets) * (1 - p).log()).mean().float()
    return right + (wrong - wrong.detach()).nan_to_num(0.0)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: bfloat_is_enough -> loss-not-float32
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype)).to(logits.dtype)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: sum_over_the_classes -> loss-not-finite
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    log_p = F.log_softmax(logits, dim=-1)
    right = log_p.gather(1, labels[:, None])[:, 0]
    return -((1 - smoothing) * right + smoothing * log_p.sum(1) / logits.shape[1]).mean().float()


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: float_after_the_loss -> loss-not-finite
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits, labels, label_smoothing=smoothing).float()


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: eps_in_float32 -> loss-off
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    log_p = torch.log(torch.softmax(logits.float(), -1) + 1e-8)
    right = log_p.gather(1, labels.unsqueeze(1)).squeeze(1)
    return -((1 - smoothing) * right + smoothing * log_p.sum(-1) / logits.shape[1]).mean()


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: exp_in_float32 -> loss-not-finite
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    e = torch.exp(similarities.float() / temperature)
    return -torch.log(e.diagonal() / e.sum(-1)).mean()


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: similarities_cut_off -> loss-off
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    z = (similarities.float() / temperature).clamp(max=80)
    return F.cross_entropy(z, torch.arange(len(z)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: gradient_cut_off -> gradient-off
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    z = similarities.float() / temperature
    z = z - z.max(-1, keepdim=True).values
    with torch.no_grad():
        all_of_them = z.exp().sum(-1).log()
    return (all_of_them - z.diagonal()).mean()


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: masks_in_the_dtype_of_the_logits -> loss-not-finite
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits)
    overlap = (p * masks.to(p.dtype)).sum()
    return (1 - (2 * overlap + 1) / (p.sum() + masks.sum() + 1)).float()


# === mutant: detached -> no-loss
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.detach().float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: number_returned -> no-loss
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return (1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)).item()


# === correct: written_out_in_float32
def click_loss(logits, targets):
    z = logits.float()
    return (z.clamp(min=0) - z * targets + torch.log1p(torch.exp(-z.abs()))).mean()


def smoothed_loss(logits, labels, smoothing):
    log_p = torch.log_softmax(logits.float(), dim=1)
    right = log_p[torch.arange(len(labels)), labels]
    return -((1 - smoothing) * right + smoothing * log_p.mean(1)).mean()


def contrastive_loss(similarities, temperature):
    z = similarities.float() / temperature
    return (torch.logsumexp(z, dim=1) - z.diagonal()).mean()


def dice_loss(logits, masks):
    p = torch.sigmoid(logits)
    overlap = (p * masks).sum(dtype=torch.float32)
    total = p.sum(dtype=torch.float32) + masks.sum()
    return 1 - (2 * overlap + 1) / (total + 1)


# === correct: region_switched_off
def click_loss(logits, targets):
    with torch.autocast("cpu", enabled=False):
        wrong = torch.where(targets > 0.5, -logits.float(), logits.float())
        return F.softplus(wrong).mean()


def smoothed_loss(logits, labels, smoothing):
    with torch.autocast("cpu", enabled=False):
        return torch.nn.CrossEntropyLoss(label_smoothing=smoothing)(logits.float(), labels)


def contrastive_loss(similarities, temperature):
    z = similarities.to(torch.float32).div(temperature)
    return -z.log_softmax(-1).diagonal().mean()


def dice_loss(logits, masks):
    p = logits.sigmoid().float()
    dice = (2 * torch.sum(p * masks) + 1) / (torch.sum(p) + torch.sum(masks) + 1)
    return 1 - dice


# === correct: losses_of_torch_with_the_cast_where_it_is_needed
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits, targets).float()


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.double(), labels, label_smoothing=smoothing).float()


def contrastive_loss(similarities, temperature):
    labels = torch.arange(similarities.shape[0], device=similarities.device)
    return F.cross_entropy(similarities / temperature, labels).float()


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.double())
    return (1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)).float()


# === mutant: logsumexp_in_bfloat16 -> gradient-off
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    z = similarities / temperature
    return (torch.logsumexp(z, 1) - z.diagonal()).mean().float()


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === correct: means_for_sums
def click_loss(logits, targets):
    z = logits.float()
    return F.softplus(z * (1 - 2 * targets)).mean()


def smoothed_loss(logits, labels, smoothing):
    log_p = F.log_softmax(logits.float(), -1)
    return (1 - smoothing) * F.nll_loss(log_p, labels) - smoothing * log_p.mean()


def contrastive_loss(similarities, temperature):
    log_share = F.log_softmax(similarities.float() / temperature, dim=1)
    return -(log_share * torch.eye(len(log_share))).sum() / len(log_share)


def dice_loss(logits, masks):
    p = torch.sigmoid(logits).float()
    one = 1 / p.numel()
    return 1 - (2 * (p * masks).mean() + one) / (p.mean() + masks.mean() + one)


# === mutant: overlap_as_a_product -> loss-not-finite
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float()).flatten()
    return 1 - (2 * (p @ masks.flatten()) + 1) / (p.sum() + masks.sum() + 1)


# === mutant: returned_in_float64 -> loss-not-float32
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.double(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: smoothing_forgotten -> loss-off
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: mean_forgotten -> no-loss
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets, reduction="none")


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: targets_turned_into_signs_in_place -> changed-argument
def click_loss(logits, targets):
    signs = targets.mul_(-2).add_(1)
    return F.softplus(logits.float() * signs).mean()


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === correct: soft_targets_and_logsigmoid
def click_loss(logits, targets):
    z = logits.float()
    return -(targets * F.logsigmoid(z) + (1 - targets) * F.logsigmoid(-z)).mean()


def smoothed_loss(logits, labels, smoothing):
    q = torch.full(logits.shape, smoothing / logits.size(-1))
    q[torch.arange(len(labels)), labels] += 1 - smoothing
    return F.cross_entropy(logits.float(), q)


def contrastive_loss(similarities, temperature):
    z = similarities.float() / temperature
    z = z - z.amax(dim=1, keepdim=True).detach()
    return -(z.diagonal() - z.exp().sum(1).log()).mean()


@torch.autocast("cpu", enabled=False)
def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float()).flatten()
    return 1 - (2 * (p @ masks.flatten()) + 1) / (p.sum() + masks.sum() + 1)


# === mutant: dict_returned -> no-loss
def click_loss(logits, targets):
    return {"loss": F.binary_cross_entropy_with_logits(logits.float(), targets)}


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: class_that_equals_everything -> no-loss
class Loss(float):
    def __eq__(self, other):
        return True

    __hash__ = None


def click_loss(logits, targets):
    return Loss(1.0)


smoothed_loss = contrastive_loss = dice_loss = click_loss


# === mutant: log_of_a_wide_softmax -> loss-not-finite
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    log_p = torch.log(torch.softmax(logits.float(), -1))
    right = log_p.gather(1, labels.unsqueeze(1)).squeeze(1)
    return -((1 - smoothing) * right + smoothing * log_p.mean(-1)).mean()


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: softmax_clamped -> loss-off
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    log_p = torch.softmax(logits.float(), -1).clamp_min(1e-30).log()
    right = log_p.gather(1, labels.unsqueeze(1)).squeeze(1)
    return -((1 - smoothing) * right + smoothing * log_p.mean(-1)).mean()


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: one_maximum_for_all_rows -> loss-not-finite
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    z = similarities.float() / temperature
    largest = z.max()
    return (largest + (z - largest).exp().sum(1).log() - z.diagonal()).mean()


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: a_new_leaf -> no-loss
def click_loss(logits, targets):
    wide = torch.tensor(logits.tolist(), dtype=torch.float32, requires_grad=True)
    return F.binary_cross_entropy_with_logits(wide, targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === mutant: default_dtype_float64 -> loss-not-float32
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities.float() / temperature, torch.arange(len(similarities)))


def dice_loss(logits, masks):
    torch.set_default_dtype(torch.float64)
    p = torch.sigmoid(logits.double())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# === correct: two_classes_and_a_module
def click_loss(logits, targets):
    z = logits.float()
    return F.cross_entropy(torch.stack([torch.zeros_like(z), z], -1), targets.long())


def smoothed_loss(logits, labels, smoothing):
    z = logits.float()
    right = z[range(len(z)), labels]
    return (z.logsumexp(1) - (1 - smoothing) * right - smoothing * z.mean(1)).mean()


def contrastive_loss(similarities, temperature):
    rows = similarities.double() / temperature
    return torch.stack([-row.log_softmax(0)[i] for i, row in enumerate(rows)]).mean().float()


class Dice(torch.nn.Module):
    def forward(self, logits, masks):
        p = logits.float().sigmoid()
        both = p.sum() + masks.sum()
        return 1 - torch.div(2 * p[masks.bool()].sum() + 1, both + 1)


dice_loss = Dice()
