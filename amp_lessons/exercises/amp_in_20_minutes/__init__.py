"""Exercises 00: AMP in 20 minutes."""

from amp_lessons.exercises.checks.topic import open_topic

__getattr__ = open_topic(__name__)
