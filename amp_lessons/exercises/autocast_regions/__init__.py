"""Exercises 05: autocast regions, the cast cache, threads."""

from amp_lessons.exercises.checks.topic import open_topic

__getattr__ = open_topic(__name__)
