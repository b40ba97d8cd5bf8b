"""Exercises 04: what autocast does to each op."""

from amp_lessons.checks.topic import open_topic

__getattr__ = open_topic(__name__)
