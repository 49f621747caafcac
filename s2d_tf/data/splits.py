"""The fixed, class-balanced validation split that is taken out of a training split."""

import numpy as np

VALIDATION_FRACTION = 0.1
VALIDATION_SEED = 20_220_311

# Splits that are parts of "train", with whether they take the validation examples or the others.
DERIVED_SPLITS = {"validation": True, "train_without_validation": False}


def validation_mask(labels: np.ndarray) -> np.ndarray:
    """Which training examples belong to the validation split.

    Takes a tenth of each class, rounded, by a fixed seed. `RandomState` is used because NumPy
    promises that its stream never changes, so the split is the same for everyone and for ever.

    Args:
        labels: int [N], the labels of the whole training split.

    Returns:
        bool [N].
    """
    labels = np.asarray(labels)
    random = np.random.RandomState(VALIDATION_SEED)
    mask = np.zeros(labels.shape, dtype=bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        count = round(VALIDATION_FRACTION * members.size)
        mask[random.permutation(members)[:count]] = True
    return mask
