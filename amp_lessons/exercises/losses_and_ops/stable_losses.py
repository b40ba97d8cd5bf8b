# %% statement points=3 minutes=20
# # Stabilise four losses
#
# Here are four losses as people write them. All break in FP16, and three break in float32 too.

# %% demo
def rough_click_loss(logits, targets):
    p = torch.sigmoid(logits)
    return -(targets * torch.log(p + 1e-8) + (1 - targets) * torch.log(1 - p + 1e-8)).mean()


def rough_smoothed_loss(logits, labels, smoothing):
    log_p = torch.log(torch.softmax(logits, -1) + 1e-8)
    right = log_p.gather(1, labels.unsqueeze(1)).squeeze(1)
    return -((1 - smoothing) * right + smoothing * log_p.sum(-1) / logits.shape[1]).mean()


def rough_contrastive_loss(similarities, temperature):
    e = torch.exp(similarities / temperature)
    return -torch.log(e.diagonal() / e.sum(-1)).mean()


def rough_dice_loss(logits, masks):
    p = torch.sigmoid(logits)
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


for dtype in (torch.float32, torch.float16):
    logits = torch.tensor([[30.0, -30.0], [0.5, 0.1]], dtype=dtype)
    similarities = torch.tensor([[0.1, 0.9], [0.2, 0.8]], dtype=dtype)
    many = torch.full((300, 300), 4.0, dtype=dtype)
    print(dtype)
    print("  click      ", rough_click_loss(logits[0], torch.tensor([0.0, 1.0])).item())
    print("  smoothed   ", rough_smoothed_loss(logits, torch.tensor([0, 1]), 0.1).item())
    print("  contrastive", rough_contrastive_loss(similarities, 1 / 128).item())
    print("  dice       ", rough_dice_loss(many, torch.ones(300, 300)).item())
print("right are about 30, 1.95, 51.2 and 0.009")

# %% text
# Write each so that it gives the loss and the logits' gradient for all that a model may put out.
#
# - Logits and similarities are float16, bfloat16 or float32. Logits lie between −60 and 60, and
#   similarities between −1 and 1. Targets and masks are float32 and hold 0s and 1s. Labels are
#   integers. The temperature is a power of two, and may be 1/128.
# - There may be 9000 classes, and 90,000 pixels.
# - The functions are called in an autocast region of the logits' dtype, or in no region, possibly
#   with logits that are still float16.
# - Return a float32 tensor without dimensions. It may be off by 1% of the loss itself, also where
#   that is as small as 0.009, and a gradient by 3% of its largest element.
# - Leave the arguments as they are.

# %% answer check=click_loss,smoothed_loss,contrastive_loss,dice_loss
def click_loss(logits, targets):
    """Binary cross entropy, the mean over logits of shape (n,); targets of 0 and 1."""
    ### BEGIN SOLUTION
    return F.binary_cross_entropy_with_logits(logits.float(), targets)
    ### END SOLUTION


def smoothed_loss(logits, labels, smoothing):
    """Cross entropy of logits of shape (rows, classes), with label smoothing; the mean."""
    ### BEGIN SOLUTION
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)
    ### END SOLUTION


def contrastive_loss(similarities, temperature):
    """Row i belongs to column i: minus the log of its share in exp(similarity / temperature).
    Similarities have the shape (n, n), each row has its own shares; the mean over the rows."""
    ### BEGIN SOLUTION
    scores = similarities.float() / temperature
    return F.cross_entropy(scores, torch.arange(len(scores)))
    ### END SOLUTION


def dice_loss(logits, masks):
    """1 - (2 * overlap + 1) / (predicted area + true area + 1), over all pixels. A pixel's
    prediction is the sigmoid of its logit."""
    ### BEGIN SOLUTION
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)
    ### END SOLUTION

# %% hints
# - In each loss, which value is the first to leave the range of FP16? Which leave that of float32?
# - Torch has three of the four in a form that takes logits. In the fourth a sum doesn't fit.
# - Cast to float32 first. Then use `binary_cross_entropy_with_logits`, and `cross_entropy` twice:
#   once with `label_smoothing`, once on similarities divided by the temperature.

# %% probe
from amp_lessons.exercises.losses_and_ops.harness_losses import loss_cases, play_losses

probe = Probe(loss_cases, play=play_losses)

# %% judge
from amp_lessons.exercises.harness import telling
from amp_lessons.exercises.losses_and_ops.harness_losses import LossNotes, same_loss

judge = Judge(same_loss, "a float32 tensor without dimensions", tell=telling(same_loss))
NARROW = ("float16", "bfloat16")

def exp_failed(look):
    finite = not look.there or math.isfinite(look.loss)
    if look.name != "contrastive_loss" or not look.ran("exp") or finite:
        return ""
    if look.ran("max") or look.ran("amax"):
        return "share of 0" if look.loss == math.inf else "another maximum"
    return "no maximum"

# %% passed
# A loss from logits, in float32, needs no eps and has a gradient where the model is most wrong.

# %% right by_hand
def click_loss(logits, targets):
    z = logits.float()
    return (z.clamp(min=0) - z * targets + torch.log1p(torch.exp(-z.abs()))).mean()

def smoothed_loss(logits, labels, smoothing):
    log_p = F.log_softmax(logits.float(), 1)
    right = log_p[torch.arange(len(labels)), labels]
    return -((1 - smoothing) * right + smoothing * log_p.mean(1)).mean()

def contrastive_loss(similarities, temperature):
    z = similarities.float() / temperature
    z = z - z.amax(dim=1, keepdim=True).detach()
    return -(z.diagonal() - z.exp().sum(1).log()).mean()

@torch.autocast("cpu", enabled=False)
def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float()).flatten()
    return 1 - (2 * (p @ masks.flatten()) + 1) / (p.sum() + masks.sum() + 1)

# %% right torchs_own
def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits, targets).float()

def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.double(), labels, label_smoothing=smoothing).float()

def contrastive_loss(similarities, temperature):
    return F.cross_entropy(similarities / temperature, torch.arange(len(similarities))).float()

def dice_loss(logits, masks):
    p = torch.sigmoid(logits)
    overlap = (p * masks).sum(dtype=torch.float32)
    return 1 - (2 * overlap + 1) / (p.sum(dtype=torch.float32) + masks.sum() + 1)

# %% rule no-loss
# `{name}` returned {what}. Return a tensor without dimensions, with a gradient for the logits.
# `item()`, `detach()`, `no_grad` and `torch.tensor(...)` cut that gradient off.
def breaks(seen, right):
    look = LossNotes(seen, right)
    return isinstance(look.loss, str) and {"name": look.name, "what": look.loss}
swap("sigmoid(logits.float())", "sigmoid(logits.detach().float())")
swap("logits.float(), targets)", 'logits.float(), targets, reduction="none")')

# %% rule log-of-a-probability
# `{name}` takes the logarithm of a probability. One that rounds to 0 or 1 gives inf, in the loss or
# its gradient, and an eps or a clamp gives another wrong number. Start from the logits.
def breaks(seen, right):
    look = LossNotes(seen, right)
    logs = any(look.ran(first, "log") for first in ("sigmoid", "_softmax"))
    logs = logs or look.ran("binary_cross_entropy") or exp_failed(look) == "share of 0"
    return logs and look.wrong and {"name": look.name}
swap("_with_logits(logits.float(), ", "(torch.sigmoid(logits.float()).clamp(1e-4, 1 - 1e-4), ")
of("by_hand", swap("F.log_softmax(logits.float(), 1)", "logits.float().softmax(1).log()"))
of("by_hand", swap("z.diagonal() - z.exp().sum(1).log()",
    "(z.exp().diagonal() / z.exp().sum(1)).log()"))

# %% rule another-maximum
# `contrastive_loss` subtracts a maximum that isn't the row's own. The exponentials of a row far
# below it are all 0, even in float32. Subtract each row's own: `z.amax(dim=1, keepdim=True)`.
def breaks(seen, right):
    return exp_failed(LossNotes(seen, right)) == "another maximum"
of("by_hand", swap("z.amax(dim=1, keepdim=True).detach()", "z.max()"))
of("by_hand", swap("amax(dim=1, ", "amax(dim=0, "))

# %% rule exp-out-of-range
# `contrastive_loss` takes the exponential itself, and exp(128) is inf in float32. Subtract each
# row's own maximum first, or leave it to a function of torch.
def breaks(seen, right):
    return exp_failed(LossNotes(seen, right)) == "no maximum"
of("by_hand", drop("z = z - z.amax"))

# %% rule product-in-16-bits
# `{name}` writes a sum as a matrix product, such as `@` or `einsum`. A region casts its inputs to
# 16 bits, whatever you cast before. Use `sum`, or switch autocast off around it.
def breaks(seen, right):
    look = LossNotes(seen, right)
    products = any(look.ran(p, dtypes=NARROW) for p in ("dot", "mm", "mv", "bmm"))
    return products and look.wrong and {"name": look.name}
of("by_hand", swap('@torch.autocast("cpu", enabled=False)\n', ""))

# %% rule sum-in-16-bits
# `{name}` adds up many terms in 16 bits: FP16 ends at 65504, and BF16 loses small terms. Cast to
# float32 before the sum: a cast of the result comes too late.
def breaks(seen, right):
    look = LossNotes(seen, right)
    parts = {"smoothed_loss": "_log_softmax", "dice_loss": "sigmoid"}
    many = look.large and look.ran(parts.get(look.name, "nothing"))
    sums = look.ran("sum", dtypes=NARROW) or look.ran("mean", dtypes=NARROW)
    return many and sums and look.there and not look.loss_right and {"name": look.name}
swap("F.cross_entropy(logits.float(), labels, label", "F.cross_entropy(logits, labels, label")
swap("sigmoid(logits.float())", "sigmoid(logits)")

# %% rule gradient-cut-off
# `{name}` has the right value, but a wrong gradient: look for `no_grad`, `detach` or a clamp.
def breaks(seen, right):
    look = LossNotes(seen, right)
    cut = look.loss_exact and not look.gradient_right
    return cut and look.logits == "float32" and {"name": look.name}
of("by_hand", swap("z.exp().sum(1).log()", "z.exp().sum(1).log().detach()"))

# %% rule gradient-rounded
# `{name}` has the right value, but its gradient is wrong for 16-bit logits. Something that it is
# computed from was rounded to 16 bits on the way. Cast the logits to float32 first.
def breaks(seen, right):
    look = LossNotes(seen, right)
    return look.loss_exact and not look.gradient_right and {"name": look.name}
(swap("similarities.float()", "similarities") &
    swap("F.cross_entropy(scores, torch.arange(len(scores)))",
    "(scores.logsumexp(1) - scores.diagonal()).mean().float()"))

# %% rule loss-not-float32
# `{name}` returns {got}, and float32 was asked for. Cast the logits to it first.
def breaks(seen, right):
    look = LossNotes(seen, right)
    got = look.noted.get("dtype of the loss")
    return look.loss_right and got != "float32" and {"name": look.name, "got": got}
swap("F.cross_entropy(logits.float(), ", "F.cross_entropy(logits.double(), ")

# %% rule changed-argument
def breaks(seen, right):
    return LossNotes(seen, right).noted.get("arguments afterwards") == "changed"
swap("logits.float(), targets)", "logits.float(), targets.mul_(1.5))")

# %% wrong scores-clamped
# Your `contrastive_loss` clamps its scores, and the largest get no gradient. Leave the clamp out.
swap("similarities.float() / temperature", "(similarities.float() / temperature).clamp(max=80)")
of("by_hand", swap("z = z - z.amax", "z = z.clamp_max(80)\n    z = z - z.amax"))

# %% wrong temperature-not-divided
# Your `contrastive_loss` leaves the temperature out, or multiplies by it. Divide by it.
swap("similarities.float() / temperature", "similarities.float()")
of("by_hand", swap("z = similarities.float() / temperature", "z = similarities.float()"))
swap("similarities.float() / temperature", "similarities.float() * temperature")

# %% wrong columns-for-rows
# Your `contrastive_loss` takes the shares over the columns, alone or beside those over the rows, as
# CLIP does. Here each row has its own shares, and only they count.
swap("similarities.float()", "similarities.float().T")
of("by_hand", swap("amax(dim=1", "amax(dim=0") & swap("sum(1).log()", "sum(0).log()"))
swap("F.cross_entropy(scores, torch.arange(len(scores)))",
    "sum(F.cross_entropy(s, torch.arange(len(s))) for s in (scores, scores.T)) / 2")

# %% wrong smoothing-forgotten
# Your `smoothed_loss` leaves the smoothing out. `cross_entropy` takes it as `label_smoothing`.
swap(", label_smoothing=smoothing", "")
of("by_hand", put("smoothing = 0.0", before="log_p = "))

# %% wrong smoothing-of-the-others
# Your `smoothed_loss` spreads the smoothing over the other classes only. Spread it over all.
of("by_hand", swap("log_p.mean(1)", "(log_p.sum(1) - right) / (logits.shape[1] - 1)"))
swap("smoothing=smoothing)", "smoothing=smoothing * (c := logits.shape[1]) / (c - 1))")

# %% wrong sum-for-mean
# Your `click_loss` is the sum over the clicks, and the mean was asked for.
swap("logits.float(), targets)", 'logits.float(), targets, reduction="sum")')
of("by_hand", swap("z.abs()))).mean()", "z.abs()))).sum()"))

# %% wrong dice-without-the-one
# Your `dice_loss` leaves out the 1 above and below the fraction. It keeps empty masks from 0/0.
swap(".sum() + 1", ".sum()", nth=0)
of("by_hand", swap("flatten()) + 1)", "flatten()))") & swap("masks.sum() + 1", "masks.sum()"))
