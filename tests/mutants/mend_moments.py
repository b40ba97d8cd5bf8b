# === mutant: as_given -> moments-in-fp16
def mend_moments(model, loss_fn, batches, rate):
    parameters = list(model.parameters())
    means = [torch.zeros_like(p, dtype=torch.float16) for p in parameters]
    squares = [torch.zeros_like(p, dtype=torch.float16) for p in parameters]
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
            g = g.to(torch.float16)
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).add_(g * g, alpha=0.001)
            m_hat, v_hat = m / (1 - 0.9**number), v / (1 - 0.999**number)
            p.data -= rate * m_hat / (v_hat.sqrt() + 1e-8)


# === mutant: larger_eps -> eps-raised
def mend_moments(model, loss_fn, batches, rate):
    parameters = list(model.parameters())
    means = [torch.zeros_like(p, dtype=torch.float16) for p in parameters]
    squares = [torch.zeros_like(p, dtype=torch.float16) for p in parameters]
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
            g = g.to(torch.float16)
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).add_(g * g, alpha=0.001)
            m_hat, v_hat = m / (1 - 0.9**number), v / (1 - 0.999**number)
            p.data -= rate * m_hat / (v_hat.sqrt() + 1e-4)


# === mutant: eps_that_survives -> eps-raised
def mend_moments(model, loss_fn, batches, rate):
    parameters = list(model.parameters())
    means = [torch.zeros_like(p, dtype=torch.float16) for p in parameters]
    squares = [torch.zeros_like(p, dtype=torch.float16) for p in parameters]
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
            g = g.to(torch.float16)
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).add_(g * g, alpha=0.001)
            m_hat, v_hat = m / (1 - 0.9**number), v / (1 - 0.999**number)
            p.data -= rate * m_hat / (v_hat.sqrt() + 1e-7)


# === mutant: bfloat16_has_the_range -> moments-in-bfloat16
def mend_moments(model, loss_fn, batches, rate):
    parameters = list(model.parameters())
    means = [torch.zeros_like(p, dtype=torch.bfloat16) for p in parameters]
    squares = [torch.zeros_like(p, dtype=torch.bfloat16) for p in parameters]
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
            g = g.to(torch.bfloat16)
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).add_(g * g, alpha=0.001)
            m_hat, v_hat = m / (1 - 0.9**number), v / (1 - 0.999**number)
            p.data -= rate * m_hat / (v_hat.sqrt() + 1e-8)


# === mutant: nan_to_num -> infinities-replaced
def mend_moments(model, loss_fn, batches, rate):
    parameters = list(model.parameters())
    means = [torch.zeros_like(p, dtype=torch.float16) for p in parameters]
    squares = [torch.zeros_like(p, dtype=torch.float16) for p in parameters]
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
            g = g.to(torch.float16)
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).add_(g * g, alpha=0.001)
            m_hat, v_hat = m / (1 - 0.9**number), v / (1 - 0.999**number)
            p.data -= rate * torch.nan_to_num(m_hat / (v_hat.sqrt() + 1e-8), 0.0, 0.0, 0.0)


# === mutant: cast_of_the_gradient_left_in -> squared-in-fp16
def mend_moments(model, loss_fn, batches, rate):
    parameters = list(model.parameters())
    means = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    squares = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
            g = g.half()
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).add_(g * g, alpha=0.001)
            m_hat, v_hat = m / (1 - 0.9**number), v / (1 - 0.999**number)
            p.data -= rate * m_hat / (v_hat.sqrt() + 1e-8)


# === mutant: only_the_squares_wide -> means-in-fp16
def mend_moments(model, loss_fn, batches, rate):
    parameters = list(model.parameters())
    means = [torch.zeros_like(p, dtype=torch.float16) for p in parameters]
    squares = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
            g = g.float()
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).add_(g * g, alpha=0.001)
            m_hat, v_hat = m / (1 - 0.9**number), v / (1 - 0.999**number)
            p.data -= rate * m_hat / (v_hat.sqrt() + 1e-8)


# === mutant: cast_up_before_the_square -> means-in-fp16
def mend_moments(model, loss_fn, batches, rate):
    parameters = list(model.parameters())
    means = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    squares = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
            g = g.half()
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).add_(g.float() * g.float(), alpha=0.001)
            m_hat, v_hat = m / (1 - 0.9**number), v / (1 - 0.999**number)
            p.data -= rate * m_hat / (v_hat.sqrt() + 1e-8)


# === correct: by_hand_in_float32
def mend_moments(model, loss_fn, batches, rate):
    parameters = list(model.parameters())
    means = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    squares = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    for number, (x, y) in enumerate(batches, 1):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
            g = g.to(torch.float32)
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).add_(g * g, alpha=0.001)
            m_hat, v_hat = m / (1 - 0.9**number), v / (1 - 0.999**number)
            p.data -= rate * m_hat / (v_hat.sqrt() + 1e-8)


# === correct: by_hand_in_float64_and_backward
def mend_moments(model, loss_fn, batches, rate):
    state = {
        p: [torch.zeros_like(p).double(), torch.zeros_like(p).double()] for p in model.parameters()
    }
    for number, (x, y) in enumerate(batches, 1):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        loss.backward()
        with torch.no_grad():
            for p, (m, v) in state.items():
                g = p.grad.double()
                m.lerp_(g, 0.1)
                v.mul_(0.999).addcmul_(g, g, value=0.001)
                step = m / (1 - 0.9**number) / ((v / (1 - 0.999**number)) ** 0.5 + 1e-8)
                p -= (rate * step).float()


# === correct: moments_of_scaled_gradients
def mend_moments(model, loss_fn, batches, rate):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, eps=1e-8, foreach=False)
    for x, y in batches:
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_fn(model(x), y)
        model.zero_grad()
        (loss * 2.0**10).backward()
        for p in model.parameters():
            p.grad /= 2.0**10
        optimizer.step()


# === correct: fused_optimizer_and_logits_cast
def mend_moments(model, loss_fn, batches, rate):
    o = torch.optim.Adam(model.parameters(), rate, fused=True)
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
        loss = loss_fn(out.float(), y)
        loss.backward()
        o.step()
        o.zero_grad()


# === correct: adam_with_a_scaler
def mend_moments(model, loss_fn, batches, rate):
    o = torch.optim.Adam(model.parameters(), rate)
    s = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for x, y in batches:
        o.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        s.scale(loss).backward()
        s.step(o)
        s.update()


# === correct: functional_call
def mend_moments(model, loss_fn, batches, rate):
    named = dict(model.named_parameters())
    state = {k: (torch.zeros_like(p), torch.zeros_like(p)) for k, p in named.items()}
    t = 0
    for x, y in batches:
        t += 1
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(torch.func.functional_call(model, named, (x,)), y)
        gs = torch.autograd.grad(loss, list(named.values()))
        for (k, p), g in zip(named.items(), gs):
            m, v = state[k]
            m = 0.9 * m + 0.1 * g
            v = 0.999 * v + 0.001 * g.square()
            state[k] = m, v
            with torch.no_grad():
                p.sub_(rate * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8))


# === correct: averages_in_numpy
import numpy as np


def mend_moments(model, loss_fn, batches, rate):
    ps = list(model.parameters())
    m = [np.zeros(p.shape, np.float64) for p in ps]
    v = [np.zeros(p.shape, np.float64) for p in ps]
    for t, (x, y) in enumerate(batches, start=1):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        loss.backward()
        for i, p in enumerate(ps):
            g = p.grad.numpy().astype(np.float64)
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * g**2
            step = rate * (m[i] / (1 - 0.9**t)) / (np.sqrt(v[i] / (1 - 0.999**t)) + 1e-8)
            p.data.sub_(torch.from_numpy(step).float())
