"""What an exported model answers, as a function of its inputs."""

from collections.abc import Callable

import tensorflow as tf

from s2d_tf import uncertainty
from s2d_tf.models import Predictor
from s2d_tf.models.contract import Contract

OUTPUTS = {"probabilities": "probs", "confidence": "confidence"} | {
    f"{name}_uncertainty": name for name in ("total", "data", "knowledge")
}
"""Names of the answers beside `label`, each with its name in `uncertainty.NAMES`."""


def answer_function(model: Predictor, reject: bool = True) -> Callable:
    """The function from a batch of inputs, as the network takes them, to the dict of answers.

    Args:
        model: the predictor.
        reject: whether a prediction that is not a number fails the request, so that no NaN is ever
            sent; other runtimes than TensorFlow have no such operation.
    """

    message = no_number(model.contract)

    def answer(inputs):
        member_logits, added = model.served_outputs(inputs)
        member_logits = tf.cast(member_logits, tf.float32)
        if reject:
            member_logits = tf.debugging.check_numerics(member_logits, message)
        found = uncertainty.from_members(model.kind, member_logits)
        label = tf.argmax(found["probs"], axis=-1, output_type=tf.int64)
        answers = {output: found[name] for output, name in OUTPUTS.items()}
        return {"label": label, **answers, **added}

    return answer


def no_number(contract: Contract) -> str:
    """The error for a request whose answer would be NaN."""
    return f"{contract.tensors[0].expected}, but their answer is no number"
