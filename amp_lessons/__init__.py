"""AMP Lessons: learn PyTorch Automatic Mixed Precision by predicting, running and explaining.

Importing this package is cheap: nothing here imports torch. Lessons import the module they need,
such as `amp_lessons.formats`; the command line lives in `amp_lessons.cli`.
"""

__version__ = "0.1.0"
