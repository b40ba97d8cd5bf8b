"""Models from public packages, and what autocast does to them in a real run on the CPU.

The models are made small from configs, with random weights: nothing is downloaded. The recorder
here shares no code with `amp_lessons.amp.explain`, so that the two can be compared.
"""
