"""Where `amp-lessons` and `python -m amp_lessons` begin."""

from __future__ import annotations

from amp_lessons.core import interrupts


def main() -> None:
    """Run the command line. Leaves with its exit status."""
    interrupts.end_at_once()
    from amp_lessons.app import cli

    cli.main()


if __name__ == "__main__":
    main()
