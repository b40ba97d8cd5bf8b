"""Exercises 09: memory."""

from amp_lessons.checks.topic import open_topic

__getattr__ = open_topic(__name__)
