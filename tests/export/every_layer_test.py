"""Every layer of Keras that maps numbers, texts or images to numbers is exported and read back."""

import copy
import inspect
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import export, models

LAYERS = {each.__name__: each for each in vars(keras.layers).values() if isinstance(each, type)}

NOT_EXPORTED = {
    "InputLayer InputSpec Layer Wrapper": "bases, without a computation of their own",
    "GRUCell LSTMCell SimpleRNNCell StackedRNNCells": "one step; RNN repeats it",
    "MaxNumBoundingBoxes": "boxes to boxes",
    "FlaxLayer JaxLayer TorchModuleWrapper": "of other backends",
    "RandomCrop": "Keras does not crop at prediction, against the layer's own output shape",
    "TFSMLayer": "reads a SavedModel from a folder of its own",
}

TWO = "output_size pool_size filters kernel_size head_dim key_dim n scale"
TWO += " num_query_heads num_key_value_heads num_heads"
FIVE = "height width units input_dim output_dim num_bins"
ARGUMENTS = {  # by name, for all layers that require them
    **dict.fromkeys(TWO.split(), 2),
    **dict.fromkeys(FIVE.split(), 5),
    **dict.fromkeys(["rate", "stddev", "factor", "height_factor", "width_factor"], 0.5),
    **{"activation": "gelu", "axes": 1, "dims": (2, 1), "target_shape": [-1]},
    **{"layer": keras.layers.LSTM(3), "layers": [keras.layers.Rescaling(2.0)]},
    **{"cell": keras.layers.LSTMCell(3), "function": keras.ops.log1p},
}
OTHERS = {
    "CategoryEncoding": {"num_tokens": 9},
    "EinsumDense": {"equation": "abc,cd->abd", "output_shape": (6, 3)},
    "Discretization": {"bin_boundaries": [0.3, 0.6]},
    "GroupNormalization": {"groups": 2},
    "IntegerLookup": {"vocabulary": [3, 5, 7]},
    "MelSpectrogram": {"fft_length": 64, "sequence_stride": 32},
    "Normalization": {"mean": 0.5, "variance": 2.0},
    "RandomPosterization": {"factor": 4},
    "STFTSpectrogram": {"frame_length": 4, "frame_step": 2, "fft_length": 4},
    "SpectralNormalization": {"layer": keras.layers.Dense(3)},
    "StringLookup": {"vocabulary": ["a few words", "red"]},
    "TextVectorization": {"vocabulary": ["words", "red"], "output_sequence_length": 4},
    "TimeDistributed": {"layer": keras.layers.Dense(3)},
    "UpSampling2D": {"interpolation": "bilinear"},
}
INPUTS = [
    *(([6, 6, 3], "float32"), ([6, 4], "float32"), ([3, 3, 3, 2], "float32")),
    *(([2, 3, 3, 3, 1], "float32"), ([256], "float32"), ([1], "int32"), ([1], "string")),
]
CALLS = [lambda layer, x: layer(x), lambda layer, x: layer([x, x]), lambda layer, x: layer(x, x)]
QUICK = "LSTM GRU Bidirectional Masking ConvLSTM2D UpSampling2D Resizing Conv2DTranspose Conv3D"
QUICK += " Discretization CategoryEncoding Hashing Lambda MelSpectrogram RandomGrayscale"


def network(name):
    """The layer on the first kind of input that it takes."""
    parameters = inspect.signature(LAYERS[name]).parameters.values()
    required = {each.name for each in parameters if each.default is each.empty}
    given = {key: ARGUMENTS[key] for key in required & set(ARGUMENTS)} | OTHERS.get(name, {})
    failures = []
    for (shape, dtype), call in itertools.product(INPUTS, CALLS):
        example = tf.fill([2, *shape], "red") if dtype == "string" else tf.ones([2, *shape], dtype)
        layer = LAYERS[name](**copy.deepcopy(given))
        try:
            x, made = keras.Input(shape, dtype=dtype), call(layer, example)
            found = keras.ops.cast(call(layer, x), "float32")
            assert found.shape[1:] == tuple(made.shape[1:])
        except Exception as error:  # of many kinds, for what it does not take
            failures.append(error)
        else:
            return keras.Model(x, keras.layers.Flatten()(found))
    raise failures[0]


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK.split() else pytest.param(name, marks=pytest.mark.slow)
        for name in sorted(set(LAYERS) - set(" ".join(NOT_EXPORTED).split()))
    ],
)
def test_a_model_with_it_is_exported_and_read_back(name, tmp_path):
    model = models.S2DClassifier(network(name), 3, seed=0)
    x = model.contract.sample(5)
    expected = model.predict_uncertainty(x)["probs"]
    version = export.load(export.save(model, tmp_path))
    (given,) = version.inputs
    answer = version.signatures["serving_default"](**{given: tf.constant(x)})
    np.testing.assert_allclose(answer["probabilities"], expected, rtol=1e-4, atol=1e-5)
