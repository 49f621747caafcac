from s2d_tf.export.calibration import calibration_images as calibration_images
from s2d_tf.export.operations import OperationError as OperationError
from s2d_tf.export.operations import check as check
from s2d_tf.export.portable import save_litert as save_litert
from s2d_tf.export.portable import save_onnx as save_onnx
from s2d_tf.export.saved_model import save as save
from s2d_tf.export.version_folders import versions as versions
