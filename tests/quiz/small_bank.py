"""A bank with one question of each kind, in two topics, for the tests of the exports."""

from __future__ import annotations

from pathlib import Path

from amp_lessons.quiz.bank import Bank, read

NUMBERS = """
[[item]]
id = "largest"
kind = "single"
level = 1
prompt = "What is the largest finite number in FP16? It's < `1e5`, & \\"finite\\" matters."
hint = "Five exponent bits."
source = "IEEE 754-2019, table 3.5"

[[item.choice]]
text = "32768"
why = "That's the largest power of two, $2^{15}$."

[[item.choice]]
text = "65504"
right = true
why = "The significand is nearly 2: `(2 - 2**-10) * 2**15`."

[[item.choice]]
text = "65536"
why = "That's where **inf** begins."

[[item]]
id = "what_underflows"
kind = "several"
level = 2
prompt = "Which of these become zero in FP16?"
hint = "The smallest subnormal is 2^-24."
source = "IEEE 754-2019"

[[item.choice]]
text = "`1e-8`"
right = true
why = "Below half of the smallest subnormal."

[[item.choice]]
text = "`1e-7`"
why = "It rounds to a subnormal."

[[item.choice]]
text = "`2e-8`"
right = true
why = "Below half of the smallest subnormal."

[[item.choice]]
text = "`-1e-9`"
right = true
why = "It becomes minus zero."

[[item]]
id = "bytes"
kind = "number"
level = 2
prompt = "How many GB does Adam's state take for 14 billion weights in FP32?"
hint = "Two numbers a weight."
source = "torch 2.13, torch/optim/adam.py"
answer = 112
unit = "GB"
tolerance = 0.02
explanation = "Two numbers of 4 bytes for each weight."

[[item.mistake]]
value = 56
why = "That's one moment; Adam keeps two."

[[item.mistake]]
value = 168
why = "That counts the weights too."

[[item.mistake]]
value = 170
why = "That counts the weights too, and rounds each of the three up."

[[item]]
id = "prints_two_lines"
kind = "output"
level = 1
prompt = "What does this print?"
code = '''
for x in (1, 2):
    print("a" if x < 2 else "b &", x)
'''
hint = "Two lines."
source = "Python 3.13 docs"

[[item.choice]]
text = "a 1\\nb & 2"
right = true
why = "The first is below 2."

[[item.choice]]
text = "b & 1\\na 2"
why = "That's the other way round."

[[item]]
id = "before_a_result"
kind = "prediction"
level = 1
prompt = "Will it overflow?"
hint = "Look at the exponent."
source = "torch 2.13"

[[item.choice]]
text = "Yes"
right = true
why = "It will."

[[item.choice]]
text = "No"
why = "It will."
"""

SCALER = """
[[item]]
id = "two_faults"
kind = "bug"
level = 3
prompt = "Which line is wrong?"
code = "scaler.step(optimizer)\\nscaler.update()\\nscaler.unscale_(optimizer)"
hint = "Order."
source = "torch 2.13, torch/amp/grad_scaler.py"

[[item.choice]]
text = "`scaler.unscale_(optimizer)`"
right = true
why = "It comes after the step."

[[item.choice]]
text = "`scaler.update()`"
why = "It belongs there."

[[item]]
id = "clip_in_order"
kind = "order"
level = 1
prompt = "Put these in order."
hint = "Clip true gradients."
source = "PyTorch 2.13 docs, AMP examples"
lines = ["loss = loss_of(x < 3)", "scaler.unscale_(optimizer)", "clip()", "scaler.step(optimizer)"]
explanation = "Unscale, clip, step."

[[item.distractor]]
text = "optimizer.step()"
why = "The scaler steps."

[[item.slip]]
early = 2
late = 1
why = "You clipped scaled gradients."

[[item]]
id = "any_of_two_orders"
kind = "order"
level = 2
prompt = "Put these in an order that works."
hint = "Two of them may be swapped."
source = "torch 2.13"
lines = ["scaler.unscale_(optimizer)", "clip(model)", "log(norm)", "scaler.step(optimizer)"]
before = [[0, 1], [0, 2], [1, 3], [2, 3]]
explanation = "Both come between."

[[item.distractor]]
text = "optimizer.step()"
why = "The scaler steps."

[[item.slip]]
early = 3
late = 0
why = "The step comes last."

[[item]]
id = "read_the_scale"
kind = "trace"
level = 2
prompt = "What happened at step 3?"
log = "step 2 scale 65536\\nstep 3 scale 32768 <-"
hint = "It halved."
source = "torch 2.13, torch/amp/grad_scaler.py"

[item.plot]
x = "step"
y = "scale"
alt = "The scale over 5 steps"
log = true
series = {scale = [65536, 65536, 65536, 32768, 32768], other = [1, 2, 4, inf, 8]}

[[item.choice]]
text = "A gradient overflowed"
right = true
why = "The scale is halved then."

[[item.choice]]
text = "The interval ended"
why = "It would double."

[[open]]
id = "why_scale"
kind = "explain"
level = 2
prompt = "Why does FP16 training need a loss scale?"
short = "Small gradients underflow."
long = "Small gradients underflow in **FP16**.\\n\\nThe scale lifts them."
rubric = ["underflow", "scale the loss", "unscale before the step"]
often_heard = "It makes training faster. It doesn't."
source = "Micikevicius et al. 2018"

[[open.follow_up]]
question = "And BF16?"
answer = "No."

[[open.follow_up]]
question = "And FP8?"
answer = "Scales for each tensor."
"""


def small_bank(folder: Path) -> Bank:
    """Written as files into a folder, and read."""
    (folder / "number_formats.toml").write_text(NUMBERS, encoding="utf-8")
    (folder / "grad_scaler.toml").write_text(SCALER, encoding="utf-8")
    return read(folder)
