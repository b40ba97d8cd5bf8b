# %% [markdown]
# # Lesson 17: Interview room
#
# Somebody asks: "The loss is NaN at step 500 of an FP16 run. Walk me through it." You know the facts.
# Can you say them in two minutes, with a number and a test? For example:
#
# > I'd replay the last checkpoint with the same batches. If the loss is inf or NaN before it is scaled,
# > the forward pass overflowed: FP16 ends at 65,504. Then I look for the first module whose output
# > isn't finite, and run that one in FP32. If only the gradients are inf, GradScaler skips the step. I
# > would look at its scale, and worry if it keeps falling.
#
# **You will be able to** answer questions on AMP with reasons and with numbers, and see where you
# stand.
#
# **Time** [[minutes]] minutes without the tasks and the mock, then five minutes a day. **Needs** [[lesson amp_in_20_minutes]]; more lessons
# make it easier.
#
# You can practise here, in a terminal, or on your phone:
#
# | in a notebook | in a terminal | what it does |
# |---|---|---|
# | `quiz(5)` | `amp-lessons quiz` | some questions, on a topic or mixed |
# | `practise("memory")` | `amp-lessons quiz --generated` | new questions, made as you ask for them |
# | `drill()` | `amp-lessons drill` | what you should see again today |
# | `mock()` | `amp-lessons mock` | a whole interview of 45 minutes |
# |  | `amp-lessons export page` | all questions in one file, for a phone |
# |  | `amp-lessons export anki` | all questions as an Anki deck |

# %%
import math

import torch
import torch.nn.functional as F
from torch import nn

from amp_lessons import ask
from amp_lessons.exercises import (
    amp_from_scratch,
    autocast_regions,
    grad_scaler,
    how_numbers_break,
    speed,
    training_loops,
)
from amp_lessons.lessons.interview import drill, mock, practise, quiz

# %% [markdown]
# ## Where do you stand?
#
# Six questions, drawn from all lessons. Tick "I'm guessing" when you are: an answer that you
# guessed comes back sooner. After your answer, "Show the proof" opens the program that proves it.

# %% tags=["live"]
quiz(6)

# %% [markdown]
# ## The numbers, from memory
#
# Many answers need a number: how large FP16 gets, how coarse BF16 is, what Adam keeps for each
# parameter. [[numbers]] has them on one page. Read it, close it, and try these. Each run of the cell
# brings new ones.

# %% tags=["live"]
practise("number_formats")

# %% [markdown]
# The same works for any topic, or for one kind of question. "Name the fault" shows you a training
# log with one planted fault. Give yourself a minute for each. `amp-lessons quiz --list --generated`
# has all the names.

# %% tags=["live"]
practise("gen_name_the_fault", number=3)

# %% [markdown]
# ## Five minutes a day
#
# The drill asks what you are about to forget. A question that you got right comes back after days,
# then weeks; one that you missed or guessed comes back tomorrow. It plans with FSRS, a scheduler that
# Anki offers too. Predictions that you missed in lessons come back here too.

# %% tags=["live"]
drill()

# %% [markdown]
# ## Tasks for a whiteboard
#
# Interviewers ask you to write code with no documentation at hand. These come up in one form
# or another. Try each from memory, without opening the lesson; then run its check. It's the check
# of the exercise, so a pass counts there too. For a hint, write `hint` for `check`, as in
# `grad_scaler.clip_step.hint()`. (Its box calls this `ex.clip_step.hint()`, as in the sheets.)

# %% [markdown] whiteboard="train_any"
# ### 1.

# %% [markdown] whiteboard="clip_step"
# ### 2.

# %% [markdown] whiteboard="accumulate"
# ### 3.

# %% [markdown] whiteboard="schedule_step"
# ### 4.

# %% [markdown] whiteboard="OwnScaler"
# ### 5.

# %% [markdown] whiteboard="MasterSGD"
# ### 6.

# %% [markdown] whiteboard="log_softmax"
# ### 7.

# %% [markdown] whiteboard="masked_softmax"
# ### 8.

# %% [markdown] whiteboard="autocast_step"
# ### 9.

# %% [markdown] whiteboard="summarise_times"
# ### 10.

# %% [markdown]
# ## A mock interview
#
# Answer aloud, as you would to a person. The mock has quick questions, estimates, faults to find, a
# task to code and open questions, and your own question to them. It leans towards what you were weak
# in. You learn at the end what was right. This cell starts a short one of 30 minutes; `mock()` takes
# 45.
#
# | part | points | what it looks for |
# |---|---:|---|
# | warm-up | 10 | facts at hand |
# | estimates | 20 | units, a model, a plausible size |
# | faults | 25 | a hypothesis, a test, the cause, a guard |
# | code | 20 | the order of the calls, where autocast ends, current names |
# | open questions | 20 | mechanism, limits, what it depends on |
# | your question to them | 5 | whether it probes the job |
#
# Below 45 points: read the lessons that the report names. From 45 you know the recipe, from 65 you
# can debug it, from 80 you can defend it. When you don't know, say how you would find out: "I would
# test it like this" is worth more than a guess.

# %% tags=["live"]
mock(minutes=30)

# %% [markdown]
# ## Three days before an interview
#
# | day | minutes | what |
# |---|---:|---|
# | 1, numbers | 30 | [[numbers]], from memory, twice |
# | | 60 | [[lesson number_formats]], [[lesson how_numbers_break]] and [[lesson amp_from_scratch]]: their questions, with "I'm guessing" where you are |
# | | 30 | what you missed, with its proofs |
# | | 45 | tasks 6 to 8 above, from nothing |
# | 2, the machine | 20 | `drill()`: yesterday's misses |
# | | 75 | [[lesson autocast_ops]] to [[lesson losses_and_ops]]: bugs and logs. Say the cause aloud before you read the choices |
# | | 45 | tasks 1 to 5, in a blank file |
# | | 45 | three open questions, in `mock()` or on the page that you exported. Record yourself, and mark the recording by the points shown |
# | 3, size, speed, judgement | 20 | `drill()` |
# | | 60 | [[lesson memory]] to [[lesson fp8]]: every estimate with a pencil, 90 seconds each |
# | | 45 | two short mocks, 20 minutes each |
# | | 45 | the full mock |
# | | 30 | what the report names. Then stop early, and sleep |
#
# ## Answers that interviewers have heard too often
#
# - "AMP trains the model in FP16." Which operations? Who decides? What stays in FP32?
# - "It keeps a master copy of the weights." With `torch.amp` the parameters themselves are FP32.
# - "It halves the memory." Which memory, at which batch size?
# - "BF16 needs no care, it has FP32's range." What about updates to weights that are stored in BF16?
# - "NaN comes from underflow." Underflow gives zeros. What turns them into NaN?
#
# The recipe is where these answers end and where the interview begins. A good answer names a
# mechanism, gives a number, and says how you would check it.

# %% [markdown]
# ## Recap
#
# 1. Answer before you look, and say when you're guessing.
# 2. `drill()` or `amp-lessons drill`, five minutes a day.
# 3. Every answer here has a proof or a source. Run the proof when you don't believe it.
# 4. Estimate with units, and say what your model leaves out.
# 5. One full mock before the day, in one go.

# %% [markdown]
# ## Three questions

# %% tags=["question"]
ask(
    "grad_scaler.what_step_does",
    "memory.seven_billion_states",
    "myths_and_clinic.scale_is_a_sixteenth",
)

# %% [markdown]
# **Next:** tomorrow's `drill()`. [[home|Your home page]] has the lessons.
