# %% statement points=3 minutes=15
# # Case 1: a new head that does not learn
#
# A model that knows five classes has to learn three new ones. Only its new head is trained.

# %% demo
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 12), nn.ReLU())
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        return self.head(self.backbone(x))


def finetune(model, head, scaler, loss_fn, batches, rate):
    optimizer = torch.optim.SGD(model.head.parameters(), lr=rate)
    model.head = head
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


try:
    finetune(Model(), nn.Linear(12, 3), scaler(), cross_entropy, some_batches(3), 0.5)
except AssertionError as error:
    print("AssertionError:", error)

# %% text
# Fix it. Call your version `fix_finetune` and keep the arguments. At the end `model.head` is the
# `head` that was passed in, trained with plain SGD. The weights of the backbone are unchanged. You
# may freeze them with `requires_grad_(False)`, but you don't have to.

# %% answer
def fix_finetune(model, head, scaler, loss_fn, batches, rate):
    """Put the head into the model and train the head alone, in FP16 with the scaler."""
    ### BEGIN SOLUTION
    model.head = head
    optimizer = torch.optim.SGD(model.head.parameters(), lr=rate)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION

# %% hints
# - Which parameters does the optimizer hold? Which parameters does the loss depend on?
# - Print `id(p)` for the optimizer's parameters and for those of `model.head`.
# - An optimizer keeps the parameters it was given. Which of the first two lines has to come first?

# %% probe
from amp_lessons.exercises.clinic.harness_cases import finetune_cases, play_finetune

probe = Probe(finetune_cases, play_finetune)

# %% judge
judge = Judge(same=within(1e-2))

# %% passed
# "No inf checks were recorded for this optimizer": no parameter of it has a gradient.

# %% right group_added_later
def fix_finetune(model, head, scaler, loss_fn, batches, rate):
    optimizer = torch.optim.SGD(model.head.parameters(), lr=rate)
    model.head = head
    optimizer.add_param_group({"params": list(head.parameters())})
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

# %% right backbone_frozen_and_run_without_gradients
def fix_finetune(model, head, scaler, loss_fn, batches, rate):
    model.add_module("head", head)
    model.backbone.requires_grad_(False)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=rate, fused=True)
    for x, y in batches:
        with torch.autocast("cpu", torch.float16):
            with torch.no_grad():
                features = model.backbone(x)
            loss = loss_fn(model.head(features).float(), y)
        optimizer.zero_grad(set_to_none=False)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

# %% wrong optimizer-of-another-head
# Your optimizer's parameters take no part in the loss, so they have no gradient. Either you made it
# before you put in the new head, or the new head is not in the model. Set `model.head` first.
move("optimizer =", before="model.head = head")
drop("model.head = head") & swap("model.head.parameters", "head.parameters")

# %% wrong nothing-trains
# Nothing is trained: the optimizer still holds the parameters of the old
# head, or no step is made. Make the optimizer after `model.head = head`, and keep `scaler.step`.
(move("optimizer =", before="model.head = head") &
    swap("scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    "loss.backward()\noptimizer.step()"))
swap("scaler.step(optimizer)\nscaler.update()", "pass")
(move("optimizer =", before="model.head = head") &
    put("scaler = torch.amp.GradScaler('cpu', enabled=False)", before="for x, y"))

# %% wrong backbone-trained
# You gave the optimizer all parameters, and it trains the backbone. Give it those of `model.head`.
swap("model.head.parameters()", "model.parameters()")
put("optimizer.add_param_group({'params': model.backbone.parameters()})", after="optimizer =")
(swap("model.head.par", "model.par") & move("optimizer =", before="model.head = head"))

# %% wrong old-head-trained
# You train the old head, which is still in the model. First of all, set `model.head = head`.
drop("model.head = head")
swap("model.head = head", "model.new_head = head")

# %% wrong copy-of-the-head
# You train a copy of the head. `model.head` has to be the very object that was passed in.
swap("model.head = head", "import copy; model.head = copy.deepcopy(head)")
(swap("model.head = head", "model.head = nn.Linear(12, 3)") &
    put("model.head.load_state_dict(head.state_dict())", after="model.head = "))

# %% wrong copy-of-the-model
# You train a copy of the model. The caller's model still has its old head. Train the one passed in.
put("import copy; model = copy.deepcopy(model)", before="model.head")
put("import copy; model = copy.copy(model); model._modules = dict(model._modules)",
    before="model.h")

# %% wrong not-plain-sgd
# Your optimizer has momentum, or it is another one, such as Adam. Use `SGD` with `lr=rate` alone.
swap("lr=rate", "lr=rate, momentum=0.9")
of("backbone_frozen_and_run_without_gradients", swap("lr=rate, fused=True", "rate, momentum=0.9"))
swap("SGD(", "Adam(")
swap("SGD(", "AdamW(")
