# %% statement points=3 minutes=15
# # Resume to the last bit
#
# Write `capture(run)` and `restore(run, state)`. With them, a run that is interrupted and resumed
# goes on as if nothing had happened, to the last bit.
#
# A `run` has five attributes:
#
# - `run.model` has batch norm and dropout,
# - `run.optimizer` is SGD with momentum,
# - `run.scaler` is a `GradScaler`,
# - `run.scheduler` lowers the learning rate,
# - `run.order` is a `torch.Generator` that shuffles the images.
#
# `capture` returns what is to be saved. The check writes it to a file with `torch.save` and lets
# the run go on, which later calls `capture` again. Then it makes a fresh run with other weights and
# another order, reads the first file with `torch.load`, and calls `restore` on the fresh run.
# `restore` changes that run in place. You may look at `ex.Training`.

# %% answer check=capture,restore
def capture(run):
    """Everything that the next steps of `run` depend on, in a form that torch.load accepts."""
    ### BEGIN SOLUTION
    return {
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scaler": run.scaler.state_dict(),
        "scheduler": run.scheduler.state_dict(),
        "dropout": torch.get_rng_state(),
        "order": run.order.get_state(),
    }
    ### END SOLUTION


def restore(run, state):
    """Bring `run` to where the captured run was."""
    ### BEGIN SOLUTION
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.scaler.load_state_dict(state["scaler"])
    run.scheduler.load_state_dict(state["scheduler"])
    torch.set_rng_state(state["dropout"])
    run.order.set_state(state["order"])
    ### END SOLUTION

# %% hints
# - List everything that the next step depends on. `Training` names five things. What does dropout
#   depend on?
# - Five of the six have a `state_dict()` or a `get_state()`. The sixth belongs to torch itself.
# - `torch.get_rng_state()` reads the sixth, and `torch.set_rng_state(state)` puts it back.

# %% probe
from amp_lessons.exercises.training_loops.stage_resume import interrupt, resume_cases

probe = Probe(resume_cases, play=interrupt)

# %% judge
from amp_lessons.plain_data.compare import differing, exactly
from amp_lessons.exercises.stage import noted as part_of

def tell(case, right, seen):
    wrong = differing(right["value"], seen["value"], exactly)
    if "file" in wrong:
        return f"{case.label}: the file: {part_of(seen, 'file')}"
    parts = [key for key in wrong if not key.startswith("run after")]
    return f"{case.label}: not as it was: {', '.join(parts or wrong)}"

def differs(key):
    def breaks(seen, right):
        value = part_of(seen, key)
        return value is not None and not exactly(part_of(right, key), value)

    return breaks

judge = Judge(tell=tell)

# %% passed
# There are six parts: model, optimizer, scaler, scheduler, random numbers, data order. With all of
# them the run goes on as if nothing had happened, to the last bit.

# %% right new_parts_for_the_run
def capture(run):
    parts = (run.model, run.optimizer, run.scaler, run.scheduler)
    generators = (torch.default_generator, run.order)
    return [p.state_dict() for p in parts], [g.get_state() for g in generators]

def restore(run, state):
    (model, optimizer, scaler, scheduler), (random, order) = state
    run.scheduler.load_state_dict(scheduler)
    run.optimizer.load_state_dict(optimizer)
    run.model.load_state_dict(model)
    run.scaler = torch.amp.GradScaler("cpu")
    run.scaler.load_state_dict(scaler)
    run.order = torch.Generator()
    run.order.set_state(order)
    torch.default_generator.set_state(random)

# %% rule objects-in-the-file
# `torch.load` refuses your file. Since PyTorch 2.6 it reads tensors, numbers, text, lists and
# dicts, and no other objects, so that a file cannot run code. Save what `state_dict()` and
# `get_state()` return, not the objects themselves.
def breaks(seen, right):
    return part_of(seen, "file") == "torch.load refuses it"
swap("run.model.state_dict()", "run.model") & swap('state["model"]', 'state["model"].state_dict()')

# %% rule nothing-in-the-file
# `capture` returns nothing that could be saved, so the file is empty. After a crash, what your
# program kept in memory is gone. Return the state.
def breaks(seen, right):
    return part_of(seen, "file") == "nothing is in it"

# %% program kept_in_memory
KEPT = {}

def capture(run):
    for part in ("model", "optimizer", "scaler", "scheduler"):
        KEPT[part] = getattr(run, part).state_dict()
    return {}

def restore(run, state):
    for part, saved in KEPT.items():
        getattr(run, part).load_state_dict(saved)

# %% rule run-changed-by-capture
# `capture` changed the run that it should only describe. That run continues afterwards as if
# nothing had happened. Read its state and leave it as it is.
breaks = differs("run after capture")
put("run.model.eval()", before="return {")
put("torch.manual_seed(7)\nrun.order.manual_seed(7)", before="return {")

# %% rule run-untouched
# After `restore` the run is what it was before. Load the state into the parts of the `run` that
# `restore` was given. A copy of it, or a new object under the same name, is lost when the function
# returns.
breaks = differs("run after restore")
put("import copy\nrun = copy.deepcopy(run)", before="run.model.load")
(put("from copy import deepcopy\nrun = deepcopy(run)", before="run.model.load") & put("return run",
    after="run.order.set"))

# %% rule model-differs
# After `restore` the model is not what it was. Its `state_dict()` holds the weights, and also the
# running statistics of batch norm, which are buffers and not parameters.
breaks = differs("model")
(swap("run.model.state_dict()", "{n: p.detach() for n, p in run.model.named_parameters()}") &
    swap('state["model"]', 'state["model"], strict=False'))
drop("run.model.load")

# %% rule left-in-eval-mode
# After `restore` the model is in eval mode: it trains without dropout, and with frozen batch
# statistics. The run that goes on was in training mode.
breaks = differs("mode")
put("run.model.eval()", after="run.model.load")

# %% rule optimizer-differs
# After `restore` the optimizer is not what it was. Its momentum and its learning rate belong to the
# checkpoint too. A `scheduler.step()` after they were loaded changes the rate again.
breaks = differs("optimizer")
drop("run.optimizer.load")
(swap("run.scheduler.state_dict()", "run.scheduler.last_epoch") &
    swap('run.scheduler.load_state_dict(state["scheduler"])',
    'for _ in range(state["scheduler"]): run.scheduler.step()'))

# %% rule scaler-differs
# After `restore` the scaler is not what it was. It has two things to remember: the scale, without
# which the next steps are skipped, and the count of clean steps, which says when the scale grows.
# Its `state_dict()` holds both.
breaks = differs("scaler")
drop("run.scaler.load")
(swap("run.scaler.state_dict()", "run.scaler.get_scale()") & swap('state["scaler"]',
    'run.scaler.state_dict() | {"scale": state["scaler"]}'))

# %% rule scheduler-differs
# After `restore` the scheduler has forgotten how many epochs it has seen. The learning rate is
# right for now, because the optimizer holds it. Later it will come down at the wrong epochs.
breaks = differs("scheduler")
drop("run.scheduler.load")

# %% rule random-numbers-differ
# After `restore` torch's global random numbers are not where they were, so dropout draws another
# mask. A seed doesn't help: it starts from the beginning. Use `torch.get_rng_state()` and
# `torch.set_rng_state()`, and draw no numbers afterwards.
breaks = differs("random numbers")
drop("torch.set_rng_state")
swap("get_rng_state()", "initial_seed()") & swap("torch.set_rng_state", "torch.manual_seed")
put("run.model(torch.zeros(2, 6))\nrun.model.load_state_dict(state['model'])", after="torch.set")

# %% rule data-order-differs
# After `restore` the generator that shuffles the images is not where it was, so the run sees other
# images. Save `run.order.get_state()`, and set it in the run's own generator.
breaks = differs("data order")
drop("run.order.set_state")
swap("order.get_state()", "order.initial_seed()") & swap("order.set_state", "order.manual_seed")
put("order = torch.Generator()", before="run.order.set") & swap("run.order.set", "order.set")
