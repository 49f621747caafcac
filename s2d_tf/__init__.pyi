from s2d_tf import backbones as backbones
from s2d_tf import data as data
from s2d_tf import errors as errors
from s2d_tf import evaluation as evaluation
from s2d_tf import export as export
from s2d_tf import files as files
from s2d_tf import layers as layers
from s2d_tf import losses as losses
from s2d_tf import metrics as metrics
from s2d_tf import models as models
from s2d_tf import numerics as numerics
from s2d_tf import optimizers as optimizers
from s2d_tf import posthoc as posthoc
from s2d_tf import serving as serving
from s2d_tf import trainers as trainers  # type: ignore[attr-defined]
from s2d_tf import uncertainty as uncertainty
from s2d_tf import zoo as zoo

__version__: str
