"""Named datasets and input pipelines.

`names` and `info` answer without TensorFlow; everything else is imported when it is first used.
"""

from s2d_tf import _lazy
from s2d_tf.data.archives import ArchiveError
from s2d_tf.data.location import MissingDataError, resolve_data_dir
from s2d_tf.data.registry import DatasetInfo, conditions, info, names

__getattr__, __dir__, __all__ = _lazy.attach(
    __name__,
    {
        "Content": "hashing",
        "FolderError": "folder",
        "ImageFolder": "folder",
        "available_splits": "loading",
        "change_labels": "label_noise",
        "cifar100_partners": "label_noise",
        "corrupt": "corruptions",
        "fetch": "loading",
        "fingerprint": "hashing",
        "folder_name": "folder",
        "hold_out": "splits",
        "load": "loading",
        "load_arrays": "loading",
        "load_images": "folder",
        "noisy_labels": "label_noise",
        "open_folder": "folder",
        "openood_sets": "openood_lists",
        "read_cifar100n": "label_noise",
        "steps_per_epoch": "pipelines",
        "train_pipeline": "pipelines",
        "write_preview": "preview",
    },
)
__all__ += [
    "ArchiveError",
    "DatasetInfo",
    "MissingDataError",
    "conditions",
    "info",
    "names",
    "resolve_data_dir",
]
