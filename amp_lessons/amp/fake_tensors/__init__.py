"""A model run on fake tensors: shape, dtype and device, and no data.

The core below `policy`, `explain`, `memory` and `bench`. `cuda` lets fake CUDA tensors exist where
there is no GPU, `modes` sets the stage, and `models` makes the stand-in of a model. `ops` and
`calls` have ops behave as on a GPU, and `saved` counts what autograd keeps.
"""
