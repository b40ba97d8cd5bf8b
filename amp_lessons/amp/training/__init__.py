"""The small reference loops of the lessons, and the models that they look at."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
