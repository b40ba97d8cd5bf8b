# %% statement points=2 minutes=10
# # Read two memory reports
#
# A script trained a model in FP32, and again with AMP. Each run wrote a report. Write
# `step_ratio(fp32, amp)`: the memory that the model and its step need with AMP, divided by that in
# FP32. Count neither the data nor what was left over from other runs.
#
# A report is a dict of bytes:
#
# - `before`: allocated when the run began. These are tensors of other runs, and they stay.
# - `loaded`: allocated after the run had put all its data on the GPU. There is no model yet.
# - `peak`: the most that was allocated at any time in the run.
# - `reserved`: the most that the allocator held, with its free blocks.
#
# The peaks alone don't tell you much. These two are from a run of PyTorch's AMP recipe:

# %% demo
fp32_report = {"before": 0, "loaded": 6_710_886_400, "peak": 7_533_332_992}
amp_report = {"before": 0, "loaded": 6_710_886_400, "peak": 7_634_019_840}
print("the peaks alone:", round(amp_report["peak"] / fp32_report["peak"], 3))

# %% answer
def step_ratio(fp32, amp):
    """Bytes of model and step with AMP, divided by those in FP32."""

    ### BEGIN SOLUTION
    def own(report):
        return report["peak"] - report["loaded"]

    return own(amp) / own(fp32)
    ### END SOLUTION

# %% hints
# - Which bytes of the peak belong to the model and its step, and to nothing else?
# - At `loaded`, the old tensors and the data are there, and the model isn't.
# - Subtract `loaded` from the peak, for each run with its own numbers. Then divide.

# %% probe
from amp_lessons.exercises.memory.harness import report_cases

probe = Probe(report_cases)

# %% judge
judge = Judge(same=within(1e-6))

# %% passed
# Most of a peak may not be your model's. Compare what changed since each run's own start.

# %% right step_by_step
def step_ratio(fp32, amp):
    own = []
    for report in (fp32, amp):
        data = report["loaded"] - report["before"]
        own.append(report["peak"] - data - report["before"])
    return torch.tensor(own[1] / own[0], dtype=torch.float64)

# %% right in_one_line
def step_ratio(fp32, amp):
    return (amp["peak"] - amp["loaded"]) / (fp32["peak"] - fp32["loaded"])

# %% wrong data-included
# Your numbers include the data. Subtract `loaded` alone: it counts both the data and `before`.
swap('"loaded"', '"before"')
swap(' - report["loaded"]', "")
of("in_one_line", swap(' - amp["loaded"]', "") & swap(' - fp32["loaded"]', ""))

# %% wrong leftovers-included
# You left in what was there before the data: tensors of other runs. `loaded` counts both.
swap('- report["loaded"]', '- (report["loaded"] - report["before"])')
of("step_by_step", swap(' - data - report["before"]', " - data"))

# %% wrong old-tensors-subtracted-twice
# You subtracted the old tensors twice: `loaded` is everything at that point, `before` included.
swap('- report["loaded"]', '- report["loaded"] - report["before"]')
of("step_by_step", swap('data = report["loaded"] - report["before"]', 'data = report["loaded"]'))

# %% wrong one-start-for-both
# You subtracted the same number from both peaks. Each run has its own data and its own `loaded`.
of("in_one_line", swap('amp["loaded"]', 'fp32["loaded"]'))
of("in_one_line", swap('fp32["loaded"]', 'amp["loaded"]'))
swap('report["loaded"]', 'fp32["loaded"]')

# %% wrong reserved-taken
# You used `reserved`, which includes free blocks that the allocator keeps for later. Use `peak`.
swap('"peak"', '"reserved"')
swap('report["peak"] - report["loaded"]', 'report["reserved"]')
of("in_one_line", swap('"peak"', '"reserved"', 0))

# %% wrong upside-down
# You divided FP32 by AMP. The task asks for AMP by FP32: less than 1 where AMP saves memory.
swap("own(amp) / own(fp32)", "own(fp32) / own(amp)")
of("step_by_step", swap("own[1] / own[0]", "own[0] / own[1]"))

# %% wrong not-a-ratio
# You returned a difference or a percentage. The task asks for the ratio: 0.8 if AMP needs 20% less.
swap("own(amp) / own(fp32)", "own(amp) / own(fp32) - 1")
swap("own(amp) / own(fp32)", "own(amp) - own(fp32)")
swap("own(amp) / own(fp32)", "100 * own(amp) / own(fp32)")
of("step_by_step", swap("own[1] / own[0]", "(own[1] - own[0]) / own[0]"))

# %% wrong rounded
# You rounded the ratio. Return it as it is, and round only where you print it.
swap("own(amp) / own(fp32)", "round(own(amp) / own(fp32), 2)")
swap("own(amp) / own(fp32)", "own(amp) // own(fp32)")
of("step_by_step", swap("own[1] / own[0]", "round(own[1] / own[0], 2)"))
