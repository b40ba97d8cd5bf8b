"""What a stranger's notebook may see and use: on Linux, a root file system of its own.

`linux` holds the system calls, `rootfs` builds the file system that all submissions see, and `cell`
locks one submission away in it. `limits` says how much it may use, and `seccomp` forbids system
calls that no notebook needs. Nothing here imports torch.
"""
