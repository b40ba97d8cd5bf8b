"""The exercises, a folder a topic and a file an exercise.

In a notebook: ``from amp_lessons.exercises import number_formats as ex``.
"""
