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


def _end_with_the_launcher() -> None:
    """Wait for the end of standard input; then ask torchrun to end its ranks and itself."""
    while os.read(STDIN, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Run torchrun with this process's command line, under that watch."""
    threading.Thread(target=_end_with_the_launcher, daemon=True).start()
    from torch.distributed.run import main as torchrun

    torchrun()


if __name__ == "__main__":
    main()
