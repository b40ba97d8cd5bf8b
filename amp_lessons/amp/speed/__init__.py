"""How fast it is: clocks, benchmarks, profiles, and the runs that others have published."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
