from .attempts import attempts_at as attempts_at
from .early import check as check
from .loader import load_model as load_model
from .model_spec import LoadedModel as LoadedModel
from .model_spec import LoadError as LoadError
from .model_spec import ModelSpec as ModelSpec
