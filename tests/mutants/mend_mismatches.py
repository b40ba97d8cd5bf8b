# === mutant: buffer_in_half -> half-leaks
def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    hidden = torch.relu(x @ weight)
    scores = torch.empty(len(x), head.shape[1], dtype=hidden.dtype)
    torch.matmul(hidden, head.to(hidden.dtype), out=scores)
    return scores


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden.float() @ head


def energy(x, weight):
    return (x @ weight).float().square().sum()


def predictions(x, weight):
    return (x @ weight).float().detach().numpy()


# === mutant: head_in_the_region -> half-leaks
def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    return (torch.relu(x @ weight) @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
        return hidden @ head


def energy(x, weight):
    return (x @ weight).float().square().sum()


def predictions(x, weight):
    return (x @ weight).float().detach().numpy()


# === mutant: weights_halved -> one-format-only
def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    return (torch.relu(x @ weight) @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return (hidden @ head.half()).float()


def energy(x, weight):
    return (x @ weight).float().square().sum()


def predictions(x, weight):
    return (x @ weight).float().detach().numpy()


# === mutant: asks_the_region -> inside-a-region-only
def update_memory(memory, rows, x, weight):
    dtype = torch.get_autocast_dtype("cpu")
    return memory.to(dtype).index_add_(0, rows, x @ weight).float()


def project(x, weight, head):
    return (torch.relu(x @ weight) @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden.float() @ head


def energy(x, weight):
    return (x @ weight).float().square().sum()


def predictions(x, weight):
    return (x @ weight).float().detach().numpy()


# === mutant: autocast_off -> autocast-switched-off
def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    return (torch.relu(x @ weight) @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden.float() @ head


def energy(x, weight):
    with torch.autocast("cpu", enabled=False):
        return ((x @ weight) ** 2).sum()


def predictions(x, weight):
    return (x @ weight).float().detach().numpy()


# === mutant: casts_the_inputs_in_double -> autocast-switched-off
def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    return (torch.relu(x @ weight) @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden.float() @ head


def energy(x, weight):
    return (x @ weight).float().square().sum()


def predictions(x, weight):
    return (x.double() @ weight.double()).float().detach().numpy()


# === mutant: float_at_the_end -> cast-after-the-sum
def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    return (torch.relu(x @ weight) @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden.float() @ head


def energy(x, weight):
    return ((x @ weight) ** 2).sum().float()


def predictions(x, weight):
    return (x @ weight).float().detach().numpy()


# === mutant: casts_the_wrong_one -> still-mismatched
def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    hidden = torch.relu(x @ weight)
    scores = torch.empty(len(x), head.shape[1])
    torch.matmul(hidden.float(), head.float(), out=scores.half())
    return scores


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden.float() @ head


def energy(x, weight):
    return (x @ weight).float().square().sum()


def predictions(x, weight):
    return (x @ weight).float().detach().numpy()


# === mutant: prints_only -> returned-none
def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    return (torch.relu(x @ weight) @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden.float() @ head


def energy(x, weight):
    return (x @ weight).float().square().sum()


def predictions(x, weight):
    print((x @ weight).float().detach().numpy())


# === mutant: writes_into_the_memory -> changed-argument
def update_memory(memory, rows, x, weight):
    return memory.index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    return (torch.relu(x @ weight) @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden.float() @ head


def energy(x, weight):
    return (x @ weight).float().square().sum()


def predictions(x, weight):
    return (x @ weight).float().detach().numpy()


# === mutant: a_list -> wrong-type
def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    return (torch.relu(x @ weight) @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden.float() @ head


def energy(x, weight):
    return (x @ weight).float().square().sum()


def predictions(x, weight):
    return (x @ weight).tolist()


# === mutant: forgot_the_relu -> wrong-value
def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    return (x @ weight @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden.float() @ head


def energy(x, weight):
    return (x @ weight).float().square().sum()


def predictions(x, weight):
    return (x @ weight).float().detach().numpy()


# === mutant: sums_in_float32 -> cast-after-the-sum
def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    return (torch.relu(x @ weight) @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden.float() @ head


def energy(x, weight):
    return ((x @ weight) ** 2).sum(dtype=torch.float32)


def predictions(x, weight):
    return (x @ weight).float().detach().numpy()


# === mutant: a_tensor_is_an_array -> wrong-type
def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    return (torch.relu(x @ weight) @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden.float() @ head


def energy(x, weight):
    return (x @ weight).float().square().sum()


def predictions(x, weight):
    return (x @ weight).float().detach()



# === mutant: head_moved_into_the_region -> head-in-16-bits
def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    return (torch.relu(x @ weight) @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
        return (hidden @ head).float()


def energy(x, weight):
    return (x @ weight).float().square().sum()


def predictions(x, weight):
    return (x @ weight).float().detach().numpy()



# === correct: others_ways
def update_memory(memory, rows, x, weight):
    added = torch.zeros_like(memory)
    features = x @ weight
    for i, row in enumerate(rows.tolist()):
        added[row] += features[i]
    return memory + added


def project(x, weight, head):
    scores = torch.empty(len(x), head.shape[1])
    scores.copy_(torch.relu(x @ weight) @ head)
    return scores


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
        with torch.autocast("cpu", enabled=False):
            return torch.mm(hidden.to(head.dtype), head)


def energy(x, weight):
    features = x @ weight
    return (
        features.square().sum()
        if features.dtype == torch.float32
        else features.float().pow(2).sum()
    )


import numpy as np


def predictions(x, weight):
    return np.asarray((x @ weight).to(torch.float32).tolist(), dtype=np.float32)


# === correct: by_einsum
def features(x, weight):
    return torch.einsum("ij,jk->ik", x, weight)


def update_memory(memory, rows, x, weight):
    new = memory.clone()
    return new.index_put_((rows,), features(x, weight).type_as(memory), accumulate=True)


def project(x, weight, head):
    return features(torch.relu(features(x, weight)), head).to(torch.float32)


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(F.linear(x, weight.T))
    return F.linear(hidden.float(), head.T)


def energy(x, weight):
    return torch.linalg.vector_norm(features(x, weight).float()) ** 2


def predictions(x, weight):
    return features(x, weight).detach().float().cpu().numpy().copy()


# === mutant: switch_left_off -> region-changed
def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    hidden = torch.relu(x @ weight)
    torch.set_autocast_enabled("cpu", False)
    return hidden.float() @ head


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden.float() @ head


def energy(x, weight):
    return (x @ weight).float().square().sum()


def predictions(x, weight):
    return (x @ weight).float().detach().numpy()


# === mutant: classify_default_region -> other-format
def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).float())


def project(x, weight, head):
    return (torch.relu(x @ weight) @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu"):
        hidden = torch.relu(x @ weight)
    return hidden.float() @ head


def energy(x, weight):
    return (x @ weight).float().square().sum()


def predictions(x, weight):
    return (x @ weight).float().detach().numpy()


# === correct: scatter
def update_memory(memory, rows, x, weight):
    f = (x @ weight).float()
    return memory.scatter_add(0, rows[:, None].expand_as(f), f)


def project(x, weight, head):
    return (torch.relu(x @ weight) @ head).float()


def classify(x, weight, head, region):
    with torch.amp.autocast(device_type="cpu", dtype=region):
        hidden = F.relu(x @ weight)
    return torch.einsum("nh,hc->nc", hidden.float(), head)


def energy(x, weight):
    with torch.no_grad():
        n = torch.linalg.norm((x @ weight).float())
    return n * n


def predictions(x, weight):
    return (x @ weight).float().detach().numpy()
