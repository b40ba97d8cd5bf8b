# === mutant: as_in_the_recipe -> scheduler-differs
def capture(run):
    return {
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scaler": run.scaler.state_dict(),
    }


def restore(run, state):
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.scaler.load_state_dict(state["scaler"])


# === mutant: no_model_buffers -> model-differs
def capture(run):
    return {
        "model": {n: p.detach() for n, p in run.model.named_parameters()},
        "optimizer": run.optimizer.state_dict(),
        "scaler": run.scaler.state_dict(),
        "scheduler": run.scheduler.state_dict(),
        "rng": torch.get_rng_state(),
        "order": run.order.get_state(),
    }


def restore(run, state):
    run.model.load_state_dict(state["model"], strict=False)
    run.optimizer.load_state_dict(state["optimizer"])
    run.scaler.load_state_dict(state["scaler"])
    run.scheduler.load_state_dict(state["scheduler"])
    torch.set_rng_state(state["rng"])
    run.order.set_state(state["order"])


# === mutant: weights_only -> optimizer-differs
def capture(run):
    return {
        "model": run.model.state_dict(),
    }


def restore(run, state):
    run.model.load_state_dict(state["model"])


# === mutant: no_scaler -> scaler-differs
def capture(run):
    return {
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scheduler": run.scheduler.state_dict(),
        "rng": torch.get_rng_state(),
        "order": run.order.get_state(),
    }


def restore(run, state):
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.scheduler.load_state_dict(state["scheduler"])
    torch.set_rng_state(state["rng"])
    run.order.set_state(state["order"])


# === mutant: scale_without_its_count -> scaler-differs
def capture(run):
    return {
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scaler": run.scaler.get_scale(),
        "scheduler": run.scheduler.state_dict(),
        "rng": torch.get_rng_state(),
        "order": run.order.get_state(),
    }


def restore(run, state):
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.scaler.load_state_dict(run.scaler.state_dict() | {"scale": state["scaler"]})
    run.scheduler.load_state_dict(state["scheduler"])
    torch.set_rng_state(state["rng"])
    run.order.set_state(state["order"])


# === mutant: no_scheduler -> scheduler-differs
def capture(run):
    return {
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scaler": run.scaler.state_dict(),
        "rng": torch.get_rng_state(),
        "order": run.order.get_state(),
    }


def restore(run, state):
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.scaler.load_state_dict(state["scaler"])
    torch.set_rng_state(state["rng"])
    run.order.set_state(state["order"])


# === mutant: no_dropout_state -> random-numbers-differ
def capture(run):
    return {
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scaler": run.scaler.state_dict(),
        "scheduler": run.scheduler.state_dict(),
        "order": run.order.get_state(),
    }


def restore(run, state):
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.scaler.load_state_dict(state["scaler"])
    run.scheduler.load_state_dict(state["scheduler"])
    run.order.set_state(state["order"])


# === mutant: seed_again -> random-numbers-differ
def capture(run):
    return {
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scaler": run.scaler.state_dict(),
        "scheduler": run.scheduler.state_dict(),
        "rng": torch.initial_seed(),
        "order": run.order.get_state(),
    }


def restore(run, state):
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.scaler.load_state_dict(state["scaler"])
    run.scheduler.load_state_dict(state["scheduler"])
    torch.manual_seed(state["rng"])
    run.order.set_state(state["order"])


# === mutant: no_data_order -> data-order-differs
def capture(run):
    return {
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scaler": run.scaler.state_dict(),
        "scheduler": run.scheduler.state_dict(),
        "rng": torch.get_rng_state(),
    }


def restore(run, state):
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.scaler.load_state_dict(state["scaler"])
    run.scheduler.load_state_dict(state["scheduler"])
    torch.set_rng_state(state["rng"])


# === mutant: order_seeded_again -> data-order-differs
def capture(run):
    return {
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scaler": run.scaler.state_dict(),
        "scheduler": run.scheduler.state_dict(),
        "rng": torch.get_rng_state(),
        "order": run.order.initial_seed(),
    }


def restore(run, state):
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.scaler.load_state_dict(state["scaler"])
    run.scheduler.load_state_dict(state["scheduler"])
    torch.set_rng_state(state["rng"])
    run.order.manual_seed(state["order"])


# === mutant: objects_pickled -> objects-in-the-file
def capture(run):
    return {
        "model": run.model,
        "optimizer": run.optimizer.state_dict(),
        "scaler": run.scaler.state_dict(),
        "scheduler": run.scheduler.state_dict(),
        "rng": torch.get_rng_state(),
        "order": run.order.get_state(),
    }


def restore(run, state):
    run.model.load_state_dict(state["model"].state_dict())
    run.optimizer.load_state_dict(state["optimizer"])
    run.scaler.load_state_dict(state["scaler"])
    run.scheduler.load_state_dict(state["scheduler"])
    torch.set_rng_state(state["rng"])
    run.order.set_state(state["order"])


# === correct: by_a_loop
PARTS = ("model", "optimizer", "scaler", "scheduler")


def capture(run):
    state = {part: getattr(run, part).state_dict() for part in PARTS}
    return [state, torch.random.get_rng_state(), run.order.get_state()]


def restore(run, state):
    states, dropout, order = state
    run.order.set_state(order)
    for part in reversed(PARTS):
        getattr(run, part).load_state_dict(states[part])
    torch.random.set_rng_state(dropout)


# === mutant: kept_in_memory_not_in_the_file -> model-differs
import copy

KEPT = {}


def capture(run):
    parts = (run.model, run.optimizer, run.scaler, run.scheduler)
    KEPT["parts"] = [copy.deepcopy(part.state_dict()) for part in parts]
    KEPT["random"] = torch.get_rng_state(), run.order.get_state()
    return {}


def restore(run, state):
    parts = (run.model, run.optimizer, run.scaler, run.scheduler)
    for part, saved in zip(parts, KEPT["parts"], strict=True):
        part.load_state_dict(saved)
    torch.set_rng_state(KEPT["random"][0])
    run.order.set_state(KEPT["random"][1])

# === mutant: generator_of_its_own -> data-order-differs
def capture(run):
    names = ("model", "optimizer", "scaler", "scheduler")
    state = {name: getattr(run, name).state_dict() for name in names}
    return state | {"random": torch.get_rng_state(), "order": run.order.get_state()}


def restore(run, state):
    for name in ("model", "optimizer", "scaler", "scheduler"):
        getattr(run, name).load_state_dict(state[name])
    torch.set_rng_state(state["random"])
    order = torch.Generator()
    order.set_state(state["order"])

# === correct: new_parts_for_the_run
def capture(run):
    return [
        run.model.state_dict(), run.optimizer.state_dict(), run.scaler.state_dict(),
        run.scheduler.state_dict(), torch.default_generator.get_state(), run.order.get_state(),
    ]


def restore(run, state):
    model, optimizer, scaler, scheduler, random, order = state
    run.scheduler.load_state_dict(scheduler)
    run.optimizer.load_state_dict(optimizer)
    run.model.load_state_dict(model)
    run.scaler = torch.amp.GradScaler("cpu")
    run.scaler.load_state_dict(scaler)
    run.order = torch.Generator()
    run.order.set_state(order)
    torch.default_generator.set_state(random)


# === mutant: returns_new_run -> run-untouched
import copy
def capture(run):
    return {k: copy.deepcopy(getattr(run, k).state_dict()) for k in ("model","optimizer","scaler","scheduler")} | {"r": torch.get_rng_state(), "o": run.order.get_state()}
def restore(run, state):
    run = copy.deepcopy(run)
    for k in ("model","optimizer","scaler","scheduler"):
        getattr(run, k).load_state_dict(state[k])
    torch.set_rng_state(state["r"]); run.order.set_state(state["o"])
    return run


# === mutant: capture_disturbs -> run-changed-by-capture
def capture(run):
    run.model.eval()
    d = {k: getattr(run, k).state_dict() for k in ("model","optimizer","scaler","scheduler")} | {"r": torch.get_rng_state(), "o": run.order.get_state()}
    return d
def restore(run, state):
    for k in ("model","optimizer","scaler","scheduler"):
        getattr(run, k).load_state_dict(state[k])
    torch.set_rng_state(state["r"]); run.order.set_state(state["o"])


# === mutant: capture_seeds -> run-changed-by-capture
def capture(run):
    torch.manual_seed(7)
    run.order.manual_seed(7)
    return {k: getattr(run, k).state_dict() for k in ("model","optimizer","scaler","scheduler")}
def restore(run, state):
    for k in ("model","optimizer","scaler","scheduler"):
        getattr(run, k).load_state_dict(state[k])
    torch.manual_seed(7)
    run.order.manual_seed(7)


# === mutant: new_scheduler_last_epoch -> optimizer-differs
def capture(run):
    return {k: getattr(run, k).state_dict() for k in ("model","optimizer","scaler")} | {"e": run.scheduler.last_epoch, "r": torch.get_rng_state(), "o": run.order.get_state()}
def restore(run, state):
    for k in ("model","optimizer","scaler"):
        getattr(run, k).load_state_dict(state[k])
    for _ in range(state["e"]): run.scheduler.step()
    torch.set_rng_state(state["r"]); run.order.set_state(state["o"])


# === correct: plain_lists
def _out(x):
    if isinstance(x, torch.Tensor): return {"t": x.tolist(), "d": str(x.dtype).split(".")[1]}
    if isinstance(x, dict): return {"k": [[k, _out(v)] for k, v in x.items()]}
    if isinstance(x, list): return [_out(v) for v in x]
    return x
def _in(x):
    if isinstance(x, dict) and "t" in x: return torch.tensor(x["t"], dtype=getattr(torch, x["d"]))
    if isinstance(x, dict): return {k: _in(v) for k, v in x["k"]}
    if isinstance(x, list): return [_in(v) for v in x]
    return x
def capture(run):
    return _out({k: dict(getattr(run, k).state_dict()) for k in ("model","optimizer","scaler","scheduler")} | {"r": torch.get_rng_state(), "o": run.order.get_state()})
def restore(run, state):
    state = _in(state)
    for k in ("model","optimizer","scaler","scheduler"):
        getattr(run, k).load_state_dict(state[k])
    torch.set_rng_state(state["r"]); run.order.set_state(state["o"])
