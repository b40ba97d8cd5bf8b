"""Exercises 12: several ranks."""

from amp_lessons.exercises.checks.topic import open_topic

__getattr__ = open_topic(__name__)
