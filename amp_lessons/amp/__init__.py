"""What automatic mixed precision does, and how much it gains.

Nothing here knows notebooks or learners.
"""
