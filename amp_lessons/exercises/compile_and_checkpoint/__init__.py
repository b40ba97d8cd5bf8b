"""Exercises 11: compile and checkpoint."""

from amp_lessons.exercises.checks.topic import open_topic

__getattr__ = open_topic(__name__)
