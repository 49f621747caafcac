"""A tiny model and the same images in every kind of file."""

import io

import numpy as np
import pytest

SHAPE = (8, 6, 3)
COUNT = 23


@pytest.fixture(scope="session")
def tiny_model():
    import keras

    from s2d_tf import models

    backbone = keras.Sequential([keras.Input(SHAPE), keras.layers.Flatten()])
    model = models.S2DClassifier(backbone, 4, mean=(120.0,) * 3, stddev=(600.0,) * 3, seed=0)
    model.class_names = ["ant", "bee", "cat", "dog"]
    return model


@pytest.fixture(scope="session")
def scorer(tiny_model):
    from s2d_tf.trainers.scoring.scorer import of_model

    return of_model(tiny_model)


@pytest.fixture(scope="session")
def pictures():
    return np.random.RandomState(5).randint(0, 256, [COUNT, *SHAPE]).astype(np.uint8)


@pytest.fixture(scope="session")
def truth():
    return np.random.RandomState(6).randint(0, 4, COUNT)


@pytest.fixture(scope="session")
def encoded(pictures):
    """PNG files, as bytes."""
    from PIL import Image

    made = []
    for picture in pictures:
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, "PNG")
        made.append(buffer.getvalue())
    return made


@pytest.fixture
def write(tmp_path, truth):
    """`write(kind, contents)` puts images into files and returns the path to score."""

    def run(kind, contents):
        if kind == "folder":
            for i, content in enumerate(contents):
                path = tmp_path / "images" / f"{i:03d}.png"
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
            return tmp_path / "images"
        if kind == "lines":
            run("folder", contents)
            path = tmp_path / "list.txt"
            lines = [f"images/{i:03d}.png\n" for i in range(len(contents))]
            path.write_text("\n".join(lines))  # with empty lines
            return path
        if kind == "tfrecord":
            return write_records(tmp_path / "x.tfrecord", contents, truth)
        import pyarrow
        from pyarrow import parquet

        path = tmp_path / "x.parquet"
        images = contents
        if kind == "parquet_struct":
            images = [{"bytes": content, "path": None} for content in contents]
        columns = {"image": images, "label": truth[: len(images)], "more": truth[: len(images)]}
        parquet.write_table(pyarrow.table(columns), path, row_group_size=7)
        return path

    return run


def constant_answers(batch):
    """What a scorer's function returns, the same for every input."""
    ones = np.ones(len(batch), np.float32)
    names = ("confidence", *(f"{n}_uncertainty" for n in ("total", "data", "knowledge")))
    probabilities = np.stack([ones, ones], axis=-1) / 2
    return {"probabilities": probabilities, "label": 0 * ones} | dict.fromkeys(names, ones)


def write_records(path, contents, labels):
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path)) as writer:
        for content, label in zip(contents, labels, strict=False):
            feature = {
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[content])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    return path
