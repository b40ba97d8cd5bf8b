"""Mixed precision on several ranks: a training script for torchrun, and experiments with it.

`train` is the script: DDP or FSDP2, with gloo on CPUs and NCCL on CUDA, on one machine or on many.
`experiments` runs it on two ranks in ways that show how they agree on a skipped step. `launch`
starts either from a notebook and collects what each rank has to say.
"""

from amp_lessons.amp.distributed.launch import LaunchError, Rank, launch, report

__all__ = ["LaunchError", "Rank", "launch", "report"]
