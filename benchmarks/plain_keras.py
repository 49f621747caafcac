"""The networks as one writes them with stock Keras layers: what ours are measured against."""

import keras


def classifier(backbone, arguments, input_shape, num_classes, mean, stddev, weight_decay):
    """DenseNet-BC or wide ResNet with a dense head, normalization and L2 on all weights."""
    decay = keras.regularizers.L2(weight_decay / 2) if weight_decay else None
    images = keras.Input(input_shape)
    x = keras.layers.Normalization(mean=mean, variance=[s * s for s in stddev])(images)
    x = {"densenet_bc": _densenet_bc, "wide_resnet": _wide_resnet}[backbone](x, decay, **arguments)
    x = _norm_relu(x, decay)
    x = keras.layers.GlobalAveragePooling2D()(x)
    logits = keras.layers.Dense(num_classes, kernel_regularizer=decay, bias_regularizer=decay)(x)
    return keras.Model(images, logits)


def _densenet_bc(x, decay, depth, growth_rate, stem_stride=1, dropout=0.0):
    x = _conv(x, 2 * growth_rate, 3, decay, stem_stride)
    for block in range(3):
        if block:
            x = _conv(_norm_relu(x, decay), x.shape[-1] // 2, 1, decay)
            x = keras.layers.AveragePooling2D(2, padding="same")(x)
        for _ in range((depth - 4) // 6):
            new = _conv(_norm_relu(x, decay), 4 * growth_rate, 1, decay)
            new = _dropout(new, dropout)
            new = _conv(_norm_relu(new, decay), growth_rate, 3, decay)
            x = keras.layers.Concatenate()([x, _dropout(new, dropout)])
    return x


def _wide_resnet(x, decay, depth, width, stem_stride=1, dropout=0.0):
    x = _conv(x, 16, 3, decay, stem_stride)
    for block, filters in enumerate((16 * width, 32 * width, 64 * width)):
        for unit in range((depth - 4) // 6):
            strides = 2 if block and not unit else 1
            active = _norm_relu(x, decay)
            if x.shape[-1] != filters:
                x = _conv(active, filters, 1, decay, strides)
            new = _norm_relu(_conv(active, filters, 3, decay, strides), decay)
            new = _conv(_dropout(new, dropout), filters, 3, decay)
            x = keras.layers.Add()([x, new])
    return x


def _conv(x, filters, kernel_size, decay, strides=1):
    return keras.layers.Conv2D(
        filters,
        kernel_size,
        strides,
        padding="same",
        use_bias=False,
        kernel_initializer="he_normal",
        kernel_regularizer=decay,
    )(x)


def _norm_relu(x, decay):
    x = keras.layers.BatchNormalization(
        momentum=0.9, epsilon=1e-5, beta_regularizer=decay, gamma_regularizer=decay
    )(x)
    return keras.layers.ReLU()(x)


def _dropout(x, rate):
    return keras.layers.Dropout(rate)(x) if rate else x
