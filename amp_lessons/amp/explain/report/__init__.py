"""What a trace says to a person and to a program.

`tree`, `islands`, `alignment` and `casting` work out what is worth saying, `costs` how long it
takes at least, and `digest` holds all of it. `text`, `page` and `data` show it in a terminal, in a
browser and as JSON; `changes` compares two runs, for `changes_text` and `changes_page` to show. The
data itself is in `explain.rows`.

THE SUMMARY. A line that has nothing to say is left out.

- hazards: ops that raise an error, give wrong numbers, or may do so with large values.
- not run: parts of the model whose parameters no op used, with their share of all parameters. An
  unused pooler is named too, and so is an expert that got no token.
- 16 bit: how much of the arithmetic runs in FP16 or BF16.
- time: the least time that a forward can take on this GPU, or that kernel launches decide.
- FP32 ops: those that take the longest.
- casts a step: how many tensors autocast converts, and the bytes that these casts read and write.
- sizes: a size that slows down tensor cores, and the next one that doesn't.
- attention: the kernel that attention runs in, and why it is that one.
- saved: what autograd keeps for the backward pass, with autocast and without. It also holds the
  16-bit weights and the inputs that backward needs, and leaves out an output that it doesn't need.
  `memory` counts those weights as "cast cache", the inputs as "batch", and every output as an
  activation, so its "activations" are another number.
- cast cache: 16-bit copies of parameters, which autocast reuses until its region ends.
- model: parameters and ops.

THE TREE. Each line adds up a module and everything inside it. Blocks that differ only in their
number share a line, such as ``layers.1–23 ×23``, and its numbers are those of all 23 together. A
block that differs in any number gets its own line. "own ops" are the ops in a module's own forward,
outside of the modules that it calls.

- time: share of the forward's time at the GPU's peak rates.
- FLOP: additions and multiplications in matrix products, convolutions and attention.
- 16-bit: share of these FLOPs that run in 16 bit.
- casts, moved: how many casts ran in the forward, and the bytes that they read and write.
- saved: bytes that autograd keeps for backward because of these ops.
- out: dtype of what the module returns.
- hazards: how many of each kind, with the symbols of the list of hazards.

K, M, G and T stand for thousands, millions and so on. For bytes they count in steps of 1024.

TIMES. Nothing is measured. An op takes at least the longer of two times: its FLOPs divided by the
GPU's peak for that dtype, and its bytes divided by the bandwidth of the GPU's memory. The peaks are
the maker's figures, in `amp.roofline`. Real kernels don't reach them, but a tensor that is still in
the GPU's cache comes faster. An FP32 matrix product counts with the FP32 peak, because PyTorch
doesn't use TF32 for it by default. An FP32 convolution counts with the TF32 peak, because cuDNN may
use TF32 by default. For a CPU the report has no times.

A CUDA kernel also has to be launched, which takes a few microseconds
(https://developer.nvidia.com/blog/cuda-graphs/). Where the ops and casts of a
model take less than 5 µs on average, the summary says that kernel launches decide. Then the times
of single ops say little, and the report leaves them out. Less arithmetic doesn't help such a model
much. Fewer and larger kernels do: a larger batch, torch.compile or CUDA graphs.

FP32 ISLANDS. Equal runs in equal blocks count as one island: a * in its name stands for any number.
Why the first op of one runs in FP32:

- "autocast runs pow in fp32": pow is on autocast's list of FP32 ops.
- "autocast, or a dtype in the call, asks for an fp32 result": as for softmax, which computes in
  FP32 from 16-bit inputs.
- "the model's own code converts to fp32": a ``.float()`` or ``.to(torch.float32)``.
- "a 16-bit tensor meets an fp32 one": PyTorch computes with the wider of the two.
- "its inputs are fp32": nothing cast them before this op.

SIZES. The number of rows, which is batch times length, isn't listed: cuBLAS asks for alignment only
in the dimensions that are contiguous in memory, here inputs and outputs, also in the backward pass
(https://docs.nvidia.com/cuda/cublas/index.html#tensor-core-usage).
"""

from amp_lessons.amp.explain.report.explanation import Explanation
from amp_lessons.amp.explain.rows import Cast, Hazard, Input, Module, OpRow, Totals, Trace

__all__ = ["Cast", "Explanation", "Hazard", "Input", "Module", "OpRow", "Totals", "Trace"]
