# %% statement points=3 minutes=15
# # Resume to the last bit
#
# Write `capture(run)` and `restore(run, state)`. With them, a run that is interrupted and resumed
# goes on as if nothing had happened, to the last bit.
#
# - `run.model` has batch norm and dropout,
# - `run.optimizer` is SGD with momentum,
# - `run.scaler` is a `GradScaler`,
# - `run.scheduler` lowers the learning rate,
# - `run.order` is a `torch.Generator` that shuffles the images.
#
# The check writes what `capture` returns to a file with `torch.save`. The run goes on, and later
# calls `capture` again. Then the check makes a fresh run (see `ex.Training`) with other weights and
# order, reads the first file with `torch.load`, and calls `restore`, which changes it in place.

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
# - `Training` names five things that the next step depends on. What does dropout depend on?
# - The five have a `state_dict()` or a `get_state()`. The sixth belongs to torch itself.
# - `torch.get_rng_state()` reads the sixth, and `torch.set_rng_state(state)` puts it back.

# %% probe
from amp_lessons.exercises.training_loops.harness_resume import interrupt, resume_cases

probe = Probe(resume_cases, play=interrupt, own=("amp_lessons.amp.scaling.checkpoint",))

# %% judge
def tell(case, right, seen):
    wrong = differing(right["value"], seen["value"], exactly)
    if "file" in wrong:
        return f"{case.label}: the file: {noted(seen, 'file')}"
    parts = [key for key in wrong if not key.startswith("run after")]
    return f"{case.label}: not as it was: {', '.join(parts or wrong)}"

def differs(key):
    def breaks(seen, right):
        value = noted(seen, key)
        return value is not None and not exactly(noted(right, key), value)

    return breaks

judge = Judge(tell=tell)

# %% passed
# There are six parts: model, optimizer, scaler, scheduler, random numbers, data order.

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
# `torch.load` refuses your file. Since PyTorch 2.6 it reads tensors, numbers, text, lists, dicts
# and few other kinds of object. Save what `state_dict()` and `get_state()` return.
def breaks(seen, right):
    return noted(seen, "file") == "torch.load refuses it"
swap("run.model.state_dict()", "run.model") & swap('state["model"]', 'state["model"].state_dict()')

# %% rule nothing-in-the-file
# `capture` returns nothing to save. What is kept in memory is gone after a crash. Return the state.
def breaks(seen, right):
    return noted(seen, "file") == "nothing is in it"
put("return {}", before="return {")

# %% rule run-changed-by-capture
# `capture` changed the run that it should only describe. Read its state and leave it as it is.
breaks = differs("run after capture")
put("run.model.eval()", before="return {")

# %% rule run-untouched
# After `restore` the run is what it was before. Load the state into the parts of the `run` that you
# were given. A copy, or a new object under the same name, is lost when the function returns.
breaks = differs("run after restore")
put("import copy\nrun = copy.deepcopy(run)", before="run.model.load")

# %% rule model-differs
# The model is not what it was. `state_dict()` holds its weights and the statistics of batch norm.
breaks = differs("model")
(swap("run.model.state_dict()", "{n: p.detach() for n, p in run.model.named_parameters()}") &
    swap('state["model"]', 'state["model"], strict=False'))
drop("run.model.load")

# %% rule left-in-eval-mode
# After `restore` the model is in eval mode, but the run was in training mode.
breaks = differs("mode")
put("run.model.eval()", after="run.model.load")

# %% rule optimizer-differs
# The optimizer's momentum is not what it was. Save and load the optimizer's `state_dict()`.
breaks = differs("momentum")
drop("run.optimizer.load")

# %% rule rate-differs
# The learning rate is not what it was. The optimizer keeps it, and `scheduler.step()` changes it.
breaks = differs("learning rate")
put("run.scheduler.step()\nrun.scheduler.step()", after="run.scheduler.load")

# %% rule scaler-differs
# The scaler isn't what it was: its scale, or its count of clean steps, which decides when it grows.
breaks = differs("scaler")
drop("run.scaler.load")
(swap("run.scaler.state_dict()", "run.scaler.get_scale()") & swap('state["scaler"]',
    'run.scaler.state_dict() | {"scale": state["scaler"]}'))

# %% rule scheduler-differs
# The scheduler doesn't know how many epochs it has seen: the rate will come down at the wrong ones.
breaks = differs("scheduler")
drop("run.scheduler.load")

# %% rule random-numbers-differ
# After `restore` torch's global random numbers are not where they were, so dropout draws another
# mask. Save `torch.get_rng_state()`, not a seed: with a seed they would start from the beginning.
breaks = differs("random numbers")
drop("torch.set_rng_state")
swap("get_rng_state()", "initial_seed()") & swap("torch.set_rng_state", "torch.manual_seed")

# %% rule data-order-differs
# After `restore` the generator that shuffles the images is not where it was, so the run sees other
# images. Save `run.order.get_state()`, and set it in the run's own generator.
breaks = differs("data order")
drop("run.order.set_state")

# %% wrong ready-made
# %% program the_course_saves
def capture(run):
    import pathlib
    import tempfile
    from amp_lessons.amp.scaling import save_checkpoint

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "run.pt"
        parts = (run.model, run.optimizer, run.scaler, run.scheduler)
        save_checkpoint(path, **dict(zip("abcd", parts, strict=True)))
        return [path.read_bytes(), run.order.get_state()]

def restore(run, state):
    import pathlib
    import tempfile
    from amp_lessons.amp.scaling import load_checkpoint

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "run.pt"
        path.write_bytes(state[0])
        parts = (run.model, run.optimizer, run.scaler, run.scheduler)
        load_checkpoint(path, **dict(zip("abcd", parts, strict=True)))
    run.order.set_state(state[1])
