"""Loss scales: which one saves which gradient, what a `GradScaler` does, and how a run resumes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
