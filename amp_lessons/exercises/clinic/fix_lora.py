# %% statement points=3 minutes=20
# # Case 13: LoRA in an FP16 checkpoint
#
# A checkpoint was loaded in FP16 and frozen. LoRA then put two thin matrices beside each layer, and
# a new head on top, all in the model's dtype. Only the LoRA matrices and the head are trained.

# %% demo
class WithLora(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_down = nn.Linear(base.in_features, 2, bias=False)
        self.lora_up = nn.Linear(2, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.lora_up(self.lora_down(x))


def train_lora(model, scaler, loss_fn, batches, rate):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


model = nn.Sequential(WithLora(nn.Linear(6, 12)), nn.ReLU(), nn.Linear(12, 3)).half()
try:
    train_lora(model, scaler(), cross_entropy, some_batches(3), 0.5)
except ValueError as error:
    print("ValueError:", error)

# %% text
# Fix it. Call your version `fix_lora` and keep the arguments. The model is the one above. Its
# frozen weights stay in FP16 from the first line to the last, because their FP32 copies wouldn't
# fit into memory. All matrix products run in FP16, and the scaler works as it is.
#
# Train with plain SGD. The check's loss has a small weight, so its gradients need the scale. In
# some runs the learning rate is small too: one update is then less than half an FP16 ulp of most
# weights. At the end the model holds the trained weights, in either dtype.

# %% answer
def fix_lora(model, scaler, loss_fn, batches, rate):
    """Train the LoRA matrices and the head, in FP16 with the scaler."""
    ### BEGIN SOLUTION
    trained = [p for p in model.parameters() if p.requires_grad]
    for p in trained:
        p.data = p.data.float()
    optimizer = torch.optim.SGD(trained, lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION

# %% hints
# - Print name, dtype and `requires_grad` of all parameters. Which ones get gradients, and in FP16?
# - LoRA's matrices aren't the only weights that are trained here.
# - Cast what is trained, and nothing else. Autocast makes FP16 copies of FP32 weights.

# %% probe
from amp_lessons.exercises.clinic.harness_loops import lora_cases, play_lora

probe = Probe(lora_cases, play_lora)

# %% judge
judge = Judge(same=within(6e-4), pairs=False)

# %% passed
# Cast what is trained to FP32, and find it by `requires_grad`, not by its name.

# %% right modules_after_the_optimizer
def fix_lora(model, scaler, loss_fn, batches, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.weight.requires_grad:
            module.float()
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x).float(), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

# %% right masters
def fix_lora(model, scaler, loss_fn, batches, rate):
    half = {n: p for n, p in model.named_parameters() if p.requires_grad}
    masters = {n: p.detach().float().requires_grad_() for n, p in half.items()}
    optimizer = torch.optim.SGD(masters.values(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = torch.func.functional_call(model, masters, (x,))
            loss = loss_fn(outputs, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    with torch.no_grad():
        for n, p in half.items():
            p.copy_(masters[n])

# %% rule trained-in-16-bits
# The weights that you train, and their gradients, are {dtype}. So small gradients and small updates
# become zero, and the scaler refuses FP16 gradients to keep you from that. Train FP32 weights.
def breaks(seen, right):
    names = {"float16": "FP16", "bfloat16": "BF16"}
    found = names.keys() & set((noted(seen, "dtype of the gradients") or "").split(", "))
    return {"dtype": " and ".join(sorted(names[dtype] for dtype in found))} if found else None
(swap("p.data = p.data.float()", "pass") & put("unscale = scaler._unscale_grads_\n"
    "scaler._unscale_grads_ = lambda o, i, f, _: unscale(o, i, f, True)", before="optimizer ="))
(swap("p.data = p.data.float()", "pass") &
    swap("scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    "loss.backward()\noptimizer.step()"))
swap("p.data.float()", "p.data.bfloat16()")

# %% rule base-thawed
# You switched `requires_grad` on for the frozen weights, so each of them gets a gradient of its own
# size. That takes memory that LoRA saves. Leave `requires_grad` as it comes.
def breaks(seen, right):
    return noted(seen, "the frozen weights get gradients") == "yes"
put("model.requires_grad_(True)", after="for p in trained")
put("model.requires_grad_(True)", before="trained =")
put("model.float()\nfor p in model.parameters(): p.requires_grad = True", before="trained =")

# %% rule base-in-fp32
# You cast the frozen weights to FP32, for a while or for good. That takes twice their memory, and
# nothing trains them. Cast only parameters with `requires_grad`.
def breaks(seen, right):
    return "float32" in (noted(seen, "dtype of the frozen weights") or "")
put("model.float()", before="trained =")
put("model = model.float()", before="trained =") & put("model.half()", after="for x, y")
of("modules_after_the_optimizer", swap(" and module.weight.requires_grad", ""))
put("model.float()\nmodel[0].base.half()", before="trained =")

# %% wrong fp16-gradients
# A weight that you train is still FP16, so its gradient is too, and the scaler refuses it. Did you
# forget the head, whose name doesn't contain "lora", or thaw the frozen weights? Go by
# `requires_grad` as it comes.
swap("for p in trained:", "for p in [p for n, p in model.named_parameters() if 'lora' in n]:")
drop("for p in trained:")
of("modules_after_the_optimizer", swap("isinstance(module, nn.Linear) and module.weight.requires_",
    "isinstance(module, nn.Linear) and not module.weight.requires_"))
swap("p.data = p.data.float()", "p = p.float()")
of("modules_after_the_optimizer", put("model[0].base.requires_grad_()", before="for x, y"))

# %% wrong head-not-trained
# The head stays as it was: your optimizer doesn't hold it, or it is frozen. The error goes away
# with it, but the head has to learn too. Train all parameters with `requires_grad`.
swap("[p for p in model.parameters() if p.requires_grad]",
    "[p for n, p in model.named_parameters() if 'lora' in n]")
put("model[2].requires_grad_(False)", before="trained =")

# %% wrong lora-not-trained
# You train the head, and the LoRA matrices stay as they were. Train all parameters with
# `requires_grad`.
swap("model.parameters()", "model[-1].parameters()")
put("for m in model[0].modules(): m.requires_grad_(False)", before="trained =")

# %% wrong optimizer-of-old-parameters
# Your optimizer holds the old parameters: you put new ones into the model after you made it, so
# none of its own has a gradient. Make the optimizer last, or cast in place with `p.data`.
(move("optimizer =", before="for p in trained:") &
    swap("for p in trained:\n    p.data = p.data.float()",
    "for m in [model[0].lora_down, model[0].lora_up, model[2]]:\n"
    "    for n, p in list(m.named_parameters()): setattr(m, n, nn.Parameter(p.float()))"))
of("masters", swap("SGD(masters.values()", "SGD(half.values()"))

# %% wrong master-weights-missing
# You round the trained weights to FP16 after each step. An update of less than half an FP16 ulp is
# lost each time. Keep them in FP32 from the first batch to the last.
put("for p in trained: p.data = p.data.half().float()", after="scaler.update()")
of("masters", put("for m in masters.values(): m.data.copy_(m.data.half())",
    after="scaler.update()"))

# %% wrong copy-trained
# You train a copy, and the caller's model stays as it was. Train the model that was passed in, or
# copy the weights back into it at the end.
put("import copy; model = copy.deepcopy(model)", before="trained =")
of("masters", drop("with torch.no_grad()"))

# %% wrong stale-copies
# The forward pass doesn't use the new weights. Either your FP32 weights aren't those of the model,
# or your autocast region stays open from batch to batch and keeps its 16-bit copies. Open the
# region inside the loop, and let the model compute with the weights that you train.
of("masters", swap("outputs = torch.func.functional_call(model, masters, (x,))",
    "outputs = model(x)") & put("for p in half.values(): p.grad = None", before="with torch.a") &
    put("for n, m in masters.items(): m.grad = half[n].grad.float()", before="scaler.step"))

# %% wrong not-plain-sgd
# Your optimizer has momentum, or it is another one, such as Adam. Use `SGD` with `lr=rate` alone.
swap("lr=rate", "lr=rate, momentum=0.9")
of("masters", swap("lr=rate", "rate, 0.9"))
swap("SGD(", "Adam(")
swap("SGD(", "AdamW(")

# %% wrong own-scaler
# You use a scaler of your own. The caller's scaler then learns nothing from these batches: its
# scale stays, and so does its count of clean steps. Use the one that you were given.
put('scaler = torch.amp.GradScaler("cpu")', before="trained =")
put("scaler = torch.amp.GradScaler('cpu', init_scale=2.0**16)", before="for x, y")
of("masters", put('scaler = torch.amp.GradScaler("cpu", 65536.0)', before="half ="))
put("scaler = torch.amp.GradScaler('cpu', init_scale=2.0**10)", before="for x, y")

# %% wrong scaler-bypassed
# The loss is not scaled, so its FP16 gradients are zero. You need FP32 weights and the scaler.
