from s2d_tf.data.archives import ArchiveError as ArchiveError
from s2d_tf.data.corruptions import corrupt as corrupt
from s2d_tf.data.folder import (
    FolderError as FolderError,
    ImageFolder as ImageFolder,
    folder_name as folder_name,
    load_images as load_images,
    open_folder as open_folder,
)
from s2d_tf.data.hashing import Content as Content, fingerprint as fingerprint
from s2d_tf.data.label_noise import (
    change_labels as change_labels,
    cifar100_partners as cifar100_partners,
    noisy_labels as noisy_labels,
    read_cifar100n as read_cifar100n,
)
from s2d_tf.data.loading import (
    available_splits as available_splits,
    fetch as fetch,
    load as load,
    load_arrays as load_arrays,
)
from s2d_tf.data.location import (
    MissingDataError as MissingDataError,
    resolve_data_dir as resolve_data_dir,
)
from s2d_tf.data.openood_lists import openood_sets as openood_sets
from s2d_tf.data.pipelines import (
    steps_per_epoch as steps_per_epoch,
    train_pipeline as train_pipeline,
)
from s2d_tf.data.preview import write_preview as write_preview
from s2d_tf.data.registry import (
    DatasetInfo as DatasetInfo,
    conditions as conditions,
    info as info,
    names as names,
)
from s2d_tf.data.splits import hold_out as hold_out
