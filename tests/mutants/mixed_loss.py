# === mutant: everything_in_float32 -> product-in-float32
def mixed_loss(images, weight, bias, labels):
    return torch.nn.functional.cross_entropy(images @ weight.T + bias, labels)


# === mutant: rounds_and_multiplies_wide -> product-in-float32
def mixed_loss(images, weight, bias, labels):
    logits = images.half().float() @ weight.half().float().T + bias
    return torch.nn.functional.cross_entropy(logits, labels)


# === mutant: everything_in_float16 -> loss-in-float16
def mixed_loss(images, weight, bias, labels):
    logits = torch.nn.functional.linear(images.half(), weight.half(), bias.half())
    return torch.nn.functional.cross_entropy(logits, labels).float()


# === mutant: wide_after_the_softmax -> loss-in-float16
def mixed_loss(images, weight, bias, labels):
    logits = images.half() @ weight.half().T + bias.half()
    log_p = torch.log_softmax(logits, dim=1).float()
    return torch.nn.functional.nll_loss(log_p, labels)


# === mutant: averages_in_float16 -> loss-in-float16
def mixed_loss(images, weight, bias, labels):
    logits = (images.half() @ weight.half().T + bias.half()).float()
    each = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    return each.half().mean().float()


# === mutant: detached_copies -> cast-detached
def mixed_loss(images, weight, bias, labels):
    w, b = weight.detach().half(), bias.detach().half()
    logits = torch.nn.functional.linear(images.half(), w, b)
    return torch.nn.functional.cross_entropy(logits.float(), labels)


# === mutant: new_leaves -> cast-detached
def mixed_loss(images, weight, bias, labels):
    w = weight.data.half().requires_grad_()
    b = bias.data.half().requires_grad_()
    logits = torch.nn.functional.linear(images.half(), w, b)
    return torch.nn.functional.cross_entropy(logits.float(), labels)


# === mutant: like_model_half -> parameters-cast
def mixed_loss(images, weight, bias, labels):
    weight.data = weight.data.half()
    bias.data = bias.data.half()
    logits = torch.nn.functional.linear(images.half(), weight, bias)
    return torch.nn.functional.cross_entropy(logits.float(), labels)


# === mutant: back_to_half_at_the_end -> loss-returned-in-float16
def mixed_loss(images, weight, bias, labels):
    logits = torch.nn.functional.linear(images.half(), weight.half(), bias.half())
    return torch.nn.functional.cross_entropy(logits.float(), labels).half()


# === mutant: sum_over_the_images -> summed-not-averaged
def mixed_loss(images, weight, bias, labels):
    logits = torch.nn.functional.linear(images.half(), weight.half(), bias.half())
    return torch.nn.functional.cross_entropy(logits.float(), labels, reduction="sum")


# === mutant: no_bias -> bias-forgotten
def mixed_loss(images, weight, bias, labels):
    logits = images.half() @ weight.half().T
    return torch.nn.functional.cross_entropy(logits.float(), labels)


# === mutant: no_return -> returned-none
def mixed_loss(images, weight, bias, labels):
    logits = torch.nn.functional.linear(images.half(), weight.half(), bias.half())
    torch.nn.functional.cross_entropy(logits.float(), labels)


# === mutant: elementwise_in_float32 -> product-in-float32
def mixed_loss(images, weight, bias, labels):
    logits = (images[:, None, :] * weight).sum(-1) + bias
    return torch.nn.functional.cross_entropy(logits, labels)


# === mutant: default_of_autocast -> product-in-bfloat16
def mixed_loss(images, weight, bias, labels):
    with torch.autocast("cpu"):
        logits = torch.nn.functional.linear(images, weight, bias)
    return torch.nn.functional.cross_entropy(logits.float(), labels)



# === correct: written_out
def mixed_loss(images, weight, bias, labels):
    logits = (images.to(torch.float16) @ weight.to(torch.float16).T).float() + bias
    shifted = logits - logits.max(1, keepdim=True).values
    log_p = shifted - shifted.exp().sum(1, keepdim=True).log()
    return -log_p[torch.arange(len(labels)), labels].mean()


# === correct: bias_in_float16
def mixed_loss(images, weight, bias, labels):
    logits = torch.addmm(bias.half(), images.half(), weight.half().t())
    return torch.nn.CrossEntropyLoss()(logits.to(torch.float32), labels)


# === correct: by_autocast
def mixed_loss(images, weight, bias, labels):
    with torch.autocast("cpu", dtype=torch.float16):
        logits = torch.nn.functional.linear(images, weight, bias)
    return torch.nn.functional.cross_entropy(logits.float(), labels)


# === correct: one_hot_labels
def mixed_loss(images, weight, bias, labels):
    logits = torch.einsum("ni,ci->nc", images.half(), weight.half()).float() + bias
    log_p = logits - torch.logsumexp(logits, 1, keepdim=True)
    chosen = torch.nn.functional.one_hot(labels, len(weight)).float()
    return -torch.einsum("nc,nc->", log_p, chosen) / len(labels)


# === correct: log_softmax_that_widens
def mixed_loss(images, weight, bias, labels):
    logits = images.half() @ weight.half().T + bias.half()
    log_p = torch.log_softmax(logits, 1, dtype=torch.float32)
    return torch.nn.functional.nll_loss(log_p, labels)


# === mutant: rounds_the_masters_in_place -> parameters-cast
def mixed_loss(images, weight, bias, labels):
    weight.data.copy_(weight.data.half())
    bias.data.copy_(bias.data.half())
    logits = torch.nn.functional.linear(images.half(), weight.half(), bias.half())
    return torch.nn.functional.cross_entropy(logits.float(), labels)


# === mutant: backward_inside -> backward-inside
def mixed_loss(images, weight, bias, labels):
    logits = (images.half() @ weight.half().T + bias.half()).float()
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    return loss.detach()


# === correct: custom_function
class HalfLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b):
        x, w = x.half(), w.half()
        ctx.save_for_backward(x, w)
        return (x @ w.t()).float() + b

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        gh = g.half()
        return None, (gh.t() @ x).float(), g.sum(0)


def mixed_loss(images, weight, bias, labels):
    return torch.nn.functional.cross_entropy(HalfLinear.apply(images, weight, bias), labels)
