"""Names of the files and folders in a run directory and in a zoo entry, defined once."""

# A run directory, in the order in which they appear.
RECIPE = "recipe.json"
LOCK = ".lock"
LOG = "log.csv"
CHECKPOINTS = "checkpoints"
SNAPSHOT = "snapshots/epoch_{:03d}.safetensors"
"""Weights after an epoch, from which other methods start."""
TENSORBOARD = "tensorboard"
TEACHER_LOGITS = "teacher_logits.npy"
SUMMARY = "summary.json"
FINAL = "final.safetensors"
METRICS = "metrics.json"
INTERVALS = "intervals.json"
SHIFT = "shift.json"
"""Metrics on corrupted versions of the test set."""
PREDICTIONS = "predictions"
STEPS = "steps"
"""Fitted post-hoc steps of a run."""
MEMBER = "member_"
"""How the names of an ensemble's member runs begin."""
VIEW = "as_"
"""How the names of the folders begin in which a run's weights are evaluated as another method."""

# An entry's folder.
ENTRY = "entry.json"
CARD = "README.md"
GOLDEN = "golden.json"


def weights_file(member: int | None = None) -> str:
    """Weights in an entry's folder, of a single network or of a member of an ensemble."""
    return "model.safetensors" if member is None else f"{MEMBER}{member}.safetensors"
