from .early import check as check
from .fixes import with_fix as with_fix
from .fixes import worth_a_real_run as worth_a_real_run
from .loader import load_model as load_model
from .model_spec import LoadedModel as LoadedModel
from .model_spec import LoadError as LoadError
from .model_spec import ModelSpec as ModelSpec
