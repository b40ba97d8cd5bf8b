# %% text
# # Exercises 07: Real training loops
#
# The first six loops are broken in ways that you will meet in real code. The last five exercises
# ask you to write a loop. Take [[lesson training_loops]] first.
#
# A check looks at what a loop leaves behind:
#
# - the parameters and their dtype,
# - how often the optimizer really stepped, and with which learning rate,
# - the scale of the scaler,
# - the dtypes of the model's outputs.
#
# How you write the loop is up to you. Some of the check's batches hold a number that FP16 cannot
# store. The scaler must see that, skip the step and lower its scale.

# %% given
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from amp_lessons.exercises import training_loops as ex

# %% demo
from amp_lessons import load_digits
from amp_lessons.amp.training import digits_network

digits = load_digits()


def fresh(init_scale=2.0**16):
    """A new model with its optimizer and scaler."""
    model = digits_network(width=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return model, optimizer, torch.amp.GradScaler("cpu", init_scale=init_scale)


def some_batches(count, overflow=None):
    """Batches of 16 digits; in the one numbered `overflow` a pixel is too large for FP16."""
    images = digits.train_images[: 16 * count].clone().view(count, 16, 64)
    if overflow is not None:
        images[overflow, 0, 20] = 3e5
    return list(zip(images, digits.train_labels[: 16 * count].view(count, 16), strict=True))
