# === mutant: no_unscale -> clipped-before-unscale
def clip_step(scaler, optimizer, loss, max_norm):
    params = [p for g in optimizer.param_groups for p in g["params"]]
    scaler.scale(loss).backward()
    norm = torch.nn.utils.clip_grad_norm_(params, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm


# === mutant: unscale_after_clip -> clipped-before-unscale
def clip_step(scaler, optimizer, loss, max_norm):
    params = [p for g in optimizer.param_groups for p in g["params"]]
    scaler.scale(loss).backward()
    norm = torch.nn.utils.clip_grad_norm_(params, max_norm)
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    return norm


# === mutant: clip_after_the_step -> not-clipped-in-time
def clip_step(scaler, optimizer, loss, max_norm):
    params = [p for g in optimizer.param_groups for p in g["params"]]
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(params, max_norm)
    scaler.update()
    return norm


# === mutant: norm_only -> not-clipped-in-time
def clip_step(scaler, optimizer, loss, max_norm):
    params = [p for g in optimizer.param_groups for p in g["params"]]
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.get_total_norm([p.grad for p in params])
    scaler.step(optimizer)
    scaler.update()
    return norm


# === mutant: limit_times_scale -> norm-of-scaled-gradients
def clip_step(scaler, optimizer, loss, max_norm):
    params = [p for g in optimizer.param_groups for p in g["params"]]
    scaler.scale(loss).backward()
    norm = torch.nn.utils.clip_grad_norm_(params, max_norm * scaler.get_scale())
    scaler.step(optimizer)
    scaler.update()
    return norm


# === mutant: norm_of_what_is_left -> norm-after-clipping
def clip_step(scaler, optimizer, loss, max_norm):
    params = [p for g in optimizer.param_groups for p in g["params"]]
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(params, max_norm)
    norm = torch.stack([p.grad.norm() for p in params]).norm()
    scaler.step(optimizer)
    scaler.update()
    return norm


# === mutant: divides_by_hand_too -> divided-too-often
def clip_step(scaler, optimizer, loss, max_norm):
    params = [p for g in optimizer.param_groups for p in g["params"]]
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    for p in params:
        p.grad = p.grad / scaler.get_scale()
    norm = torch.nn.utils.clip_grad_norm_(params, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm


# === mutant: optimizer_step -> optimizer-stepped-directly
def clip_step(scaler, optimizer, loss, max_norm):
    params = [p for g in optimizer.param_groups for p in g["params"]]
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(params, max_norm)
    optimizer.step()
    scaler.update()
    return norm


# === mutant: update_left_out -> update-forgotten
def clip_step(scaler, optimizer, loss, max_norm):
    params = [p for g in optimizer.param_groups for p in g["params"]]
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(params, max_norm)
    scaler.step(optimizer)
    return norm


# === mutant: plain_backward -> loss-not-scaled
def clip_step(scaler, optimizer, loss, max_norm):
    params = [p for g in optimizer.param_groups for p in g["params"]]
    loss.backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(params, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm


# === mutant: one_group_of_two -> first-group-only
def clip_step(scaler, optimizer, loss, max_norm):
    params = optimizer.param_groups[0]["params"]
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(params, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm


# === mutant: by_value -> wrong-value
def clip_step(scaler, optimizer, loss, max_norm):
    params = [p for g in optimizer.param_groups for p in g["params"]]
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.get_total_norm([p.grad for p in params])
    torch.nn.utils.clip_grad_value_(params, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm


# === mutant: norm_not_returned -> wrong-value
def clip_step(scaler, optimizer, loss, max_norm):
    params = [p for g in optimizer.param_groups for p in g["params"]]
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(params, max_norm)
    scaler.step(optimizer)
    scaler.update()


# === correct: scaled_limit_true_norm
def clip_step(scaler, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scale = scaler.get_scale()
    params = [p for g in optimizer.param_groups for p in g["params"]]
    norm = nn.utils.clip_grad_norm_(params, max_norm * scale) / scale
    scaler.step(optimizer)
    scaler.update()
    return norm.item()


# === correct: written_out
def clip_step(scaler, optimizer, loss, max_norm):
    (scaler.scale(loss)).backward()
    scaler.unscale_(optimizer)
    grads = [p.grad for g in optimizer.param_groups for p in g["params"]]
    norm = sum(g.square().sum() for g in grads).sqrt()
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for g in grads:
        g *= factor
    scaler.step(optimizer)
    scaler.update()
    return float(norm)

# === mutant: unscale_before_the_backward -> loss-not-scaled
def clip_step(scaler, optimizer, loss, max_norm):
    scaler.unscale_(optimizer)
    scaler.scale(loss).backward()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm

# === mutant: result_of_scale_dropped -> divided-too-often
def clip_step(scaler, optimizer, loss, max_norm):
    scaler.scale(loss)
    loss.backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm

# === mutant: group_by_group -> clipped-in-parts
def clip_step(scaler, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    squares = 0
    for group in optimizer.param_groups:
        squares += nn.utils.clip_grad_norm_(group["params"], max_norm) ** 2
    scaler.step(optimizer)
    scaler.update()
    return squares**0.5

# === mutant: tensor_by_tensor -> clipped-in-parts
def clip_step(scaler, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = nn.utils.get_total_norm([p.grad for p in parameters])
    for p in parameters:
        nn.utils.clip_grad_norm_([p], max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm

# === correct: gradients_from_autograd
def clip_step(scaler, optimizer, loss, max_norm):
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    gradients = torch.autograd.grad(scaler.scale(loss), parameters)
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = g
    scaler.unscale_(optimizer)
    norm = nn.utils.get_total_norm([p.grad for p in parameters])
    nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return float(norm)


# === mutant: update_before_step -> update-forgotten
def clip_step(scaler, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    params = [p for g in optimizer.param_groups for p in g["params"]]
    norm = nn.utils.clip_grad_norm_(params, max_norm)
    scaler.update()
    scaler.step(optimizer)
    return norm
