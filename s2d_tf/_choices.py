"""The names that arguments and recipes choose from. Needs no TensorFlow."""

# data
AUGMENTATIONS = ("mirror_shift", "alternating_mirror_shift")
PADDINGS = ("mean", "reflect")

# numerics.fit_dirichlet and models.S2DClassifier
FIT_METHODS = ("newton", "mean_precision")
STUDENT_LOSSES = ("balanced_kl", "kl", "reverse_kl", "log_likelihood")

# losses
TEACHER_KINDS = ("dirichlet", "categorical")
