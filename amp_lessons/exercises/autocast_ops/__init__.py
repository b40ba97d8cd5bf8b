"""Exercises 04: what autocast does to each op."""

from amp_lessons.exercises.checks.topic import open_topic

__getattr__ = open_topic(__name__)
