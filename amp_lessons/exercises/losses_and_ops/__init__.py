"""Exercises 08: losses, norms and your own ops."""

from amp_lessons.exercises.checks.topic import open_topic

__getattr__ = open_topic(__name__)
