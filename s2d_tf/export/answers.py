"""What an exported model answers, as a function of pixels."""

import tensorflow as tf

from s2d_tf import uncertainty
from s2d_tf.models import Predictor

OUTPUTS = (
    "probabilities",
    "label",
    "confidence",
    "total_uncertainty",
    "data_uncertainty",
    "knowledge_uncertainty",
)


def check_predictor(model):
    """Refuses anything that is not a `models.Predictor`."""
    if not isinstance(model, Predictor):
        raise ValueError(
            f"model must be a models.Predictor, received {type(model).__name__}: "
            "models.S2DClassifier.from_classifier casts a Keras classifier."
        )


def answer_function(model, refuse=True):
    """The function from float32 images `[batch, height, width, channels]` to the dict of answers.

    Args:
        model: a `models.Predictor`.
        refuse: whether an answer that is no number fails the request, so that no NaN is ever
            sent; other runtimes than TensorFlow have no such operation.
    """

    def answer(images):
        member_logits = tf.cast(model.member_logits(images), tf.float32)
        if refuse:
            member_logits = tf.debugging.check_numerics(
                member_logits, "images: expected pixels in [0, 255], but their answer is no number"
            )
        found = uncertainty.from_members(model.kind, member_logits)
        return {
            "probabilities": found["probs"],
            "label": tf.argmax(found["probs"], axis=-1, output_type=tf.int64),
            "confidence": found["confidence"],
            "total_uncertainty": found["total"],
            "data_uncertainty": found["data"],
            "knowledge_uncertainty": found["knowledge"],
        }

    return answer
