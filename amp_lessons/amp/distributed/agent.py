"""torchrun, which ends when the process that launched it does.

A kernel that is restarted, or a grader that is killed, has no time to end its ranks, and they sit
in sessions of their own, where no signal to the kernel's group finds them. So `launch` starts this
module and holds the other end of its standard input: end of file means that the launcher is gone.
"""

from __future__ import annotations

import os
import signal
import threading

STDIN = 0


def _keep_from_ranks() -> int:
    """Move standard input to a descriptor of our own.

    The ranks inherit an empty one: a rank that asks for input fails at once, and waits for nobody.
    """
    launcher, nothing = os.dup(STDIN), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STDIN)
    os.close(nothing)
    return launcher


def _end_with_the_launcher(launcher: int) -> None:
    """Wait until the launcher's end is closed; then ask torchrun to end its ranks and itself."""
    while os.read(launcher, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Run torchrun with this process's command line, under that watch."""
    watched = (_keep_from_ranks(),)
    threading.Thread(target=_end_with_the_launcher, args=watched, daemon=True).start()
    from torch.distributed.run import main as torchrun

    torchrun()


if __name__ == "__main__":
    main()
