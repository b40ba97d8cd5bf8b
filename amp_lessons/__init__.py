"""AMP Lessons: learn PyTorch Automatic Mixed Precision by predicting, running and explaining.

Importing this package is cheap: no name imports torch before it is used. `__init__.pyi` lists the
names that lessons and your own code need. The command line lives in `amp_lessons.app.cli`.
"""

__version__ = "0.1.0"

try:
    import lazy_loader
except ModuleNotFoundError:  # `app.set_up` runs where nothing is installed yet, and needs no name
    pass
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
