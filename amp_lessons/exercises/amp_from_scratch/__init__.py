"""Exercises 03: AMP from scratch."""

from amp_lessons.exercises.checks.topic import open_topic

__getattr__ = open_topic(__name__)
