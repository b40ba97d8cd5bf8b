"""AMP Lessons: learn PyTorch Automatic Mixed Precision by predicting, running and explaining.

Importing this package is cheap: no name imports torch before it is used. `__init__.pyi` lists the
names that lessons and your own code need. The command line lives in `amp_lessons.app.cli`.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
