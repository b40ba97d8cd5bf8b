"""Broken and hostile submissions for the grader, each with what must come out of it.

`corpus` lists them all. `sheets` makes notebooks from the course's own sheets, `machine` is what an
attack must not reach: a process, a folder, a socket and a secret that the tests watch.
"""
