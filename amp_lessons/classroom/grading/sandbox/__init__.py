"""What a stranger's notebook may see and use: a house of its own on Linux, or less elsewhere.

`linux` holds the system calls, `house` builds the file system that all submissions see, and `cell`
locks one submission away in it. `limits` says how much it may use, and `calls` forbids system calls
that no notebook needs. Nothing here imports torch.
"""
