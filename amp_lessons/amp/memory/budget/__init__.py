"""What a training step of a model needs, in each precision, and which GPU has that much.

`survey` counts a step at two batch sizes with `memory.memory_by_module`. All that grows with the
batch grows in proportion to it, so the two give every other batch, the largest that fits, and the
batch from which on autocast needs less than float32. `screen` prints it.

- parameters: all of them; two that share their memory count once.
- gradients: for the parameters that are trained, in their dtype.
- optimizer: its state: nothing for SGD, one tensor a parameter with momentum, two for Adam, AdamW.
- batch: inputs and labels.
- activations: what autograd saves in the forward, plus the output and the loss.
- cast cache: 16-bit copies of parameters, which autocast keeps until its region ends.
- peak, in step(): Adam's step needs room for one more copy for a moment; shown if that is the most.

A GPU of 16 GB is taken to have 16 × 10⁹ bytes. A batch above a million is shown as "> 1 million".

In the table by module, a row holds everything inside its module. An activation counts for the
module that saves it first, so the input of a layer often belongs to the layer before it. "output,
loss" is what no module saved. For a Hugging Face decoder that includes the cache of keys and
values. It returns this cache in training too, unless its config says ``"use_cache": false``.
"""

from __future__ import annotations

from amp_lessons.amp.memory.budget.counting import CARDS, OPTIMIZERS, Survey, survey

__all__ = ["CARDS", "OPTIMIZERS", "Survey", "survey"]
