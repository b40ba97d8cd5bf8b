"""From the words of a command line to a model and its inputs, for `explain` and `memory`.

`load_model` takes a function's name, a Hugging Face config or the name of a timm model, and gives
the model with the inputs of its forward. `check` refuses what names no model, and needs no torch
for it, so nothing here is imported before it is used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
