"""Number formats of 8 to 32 bits, decoded and rounded by hand."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
