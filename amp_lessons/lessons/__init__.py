"""What the cells of the lessons show: pictures, experiments, myths, widgets, and the questions.

Nothing here holds facts of its own, and nothing knows a class.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
