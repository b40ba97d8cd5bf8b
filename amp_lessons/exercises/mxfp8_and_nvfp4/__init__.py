"""Exercises 14: MXFP8 and NVFP4."""

from amp_lessons.exercises.checks.topic import open_topic

__getattr__ = open_topic(__name__)
