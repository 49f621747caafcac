"""Member predictions -> probabilities, confidence, and total, data and knowledge uncertainty.

Every function takes a stack `[members, batch, classes]`, or `[batch, classes]` for one member, and
returns a dict of tensors in the stack's dtype, in nats:

    "probs" [batch, classes]   the mean of the members' mean predictions
    "confidence" [batch]       its largest entry
    "total" [batch]            its entropy
    "data" [batch]             the expected entropy of a categorical drawn from the members
    "knowledge" [batch]        the mutual information between the class and that categorical

Total = data + knowledge, and none is ever negative. Total minus data has no digits left when
predictions are concentrated, so knowledge comes first, from sums of non-negative terms:

    for one Dirichlet     sum_c p_c (g(a_c) - g(a_0)),    g(x) = psi(x + 1) - ln x,
    for an ensemble       the mean of its members' own, plus the mean KL divergence of the members'
                          mean predictions from their average.

One categorical prediction does not decompose: its data uncertainty is the total, its knowledge 0.

Only elementary operations are used, so that the answers export to ONNX and LiteRT.
"""

from __future__ import annotations

import tensorflow as tf

from s2d_tf._types import TensorLike
from s2d_tf.numerics import concentrations_from_logits, digamma, digamma_minus_log
from s2d_tf.numerics.tensor_checks import MIN_LOG_PROB, as_float, check_classes, require

KINDS = ("categorical", "dirichlet")

NAMES = ("probs", "confidence", "total", "data", "knowledge")
"""What every function returns, in this order."""

SCORES = NAMES[1:]
"""Those that are one number for each input."""

# The smallest that float32 holds at full precision, more or less: it keeps ln 0 out.
_MIN_PROB = 1e-37

# exp(-80) is representable in float32, and no uncertainty can tell it from 0.
_MIN_LOG_RATIO = -80.0


def decomposes(kind: str, num_members: int) -> bool:
    """Whether predictions split into data and knowledge: not one categorical prediction.

    Example:

    >>> uncertainty.decomposes("categorical", 1), uncertainty.decomposes("dirichlet", 1)
    (False, True)
    """
    return kind == "dirichlet" or num_members > 1


def from_probs(member_probs: TensorLike) -> dict[str, tf.Tensor]:
    """Uncertainties of categorical predictions, given as probabilities.

    Example:

    >>> members = [[[0.9, 0.1]], [[0.1, 0.9]]]             # two members that disagree
    >>> found = uncertainty.from_probs(members)
    >>> {name: round(float(found[name][0]), 3) for name in ("total", "data", "knowledge")}
    {'total': 0.693, 'data': 0.325, 'knowledge': 0.368}
    """
    probs = _as_members(member_probs, "member_probs")
    return _categorical(probs, _log(probs))


def from_log_probs(member_log_probs: TensorLike) -> dict[str, tf.Tensor]:
    """Uncertainties of categorical predictions, given as log-probabilities or logits.

    Example:

    >>> found = uncertainty.from_log_probs([[2.0, 0.0, 0.0]])  # logits of one prediction
    >>> float(found["knowledge"][0])
    0.0
    """
    logits = _as_members(member_log_probs, "member_log_probs")
    return _categorical(tf.nn.softmax(logits, axis=-1), _log_softmax(logits))


def from_concentrations(member_concentrations: TensorLike) -> dict[str, tf.Tensor]:
    """Uncertainties of Dirichlet predictions, given as concentrations.

    Example:

    >>> found = uncertainty.from_concentrations([[50.0, 50.0], [0.5, 0.5]])
    >>> found["data"].numpy().round(2), found["knowledge"].numpy().round(2)
    (array([0.69, 0.39], dtype=float32), array([0.  , 0.31], dtype=float32))
    """
    concentrations = _as_members(member_concentrations, "member_concentrations")
    total_concentration = tf.reduce_sum(concentrations, axis=-1, keepdims=True)
    probs = concentrations / total_concentration
    return _dirichlet(probs, _log(probs), total_concentration)


def from_log_concentrations(member_logits: TensorLike) -> dict[str, tf.Tensor]:
    """Uncertainties of Dirichlet predictions, given as log-concentrations.

    Mean predictions come from the logits as they are; only the total concentration is that of the
    clipped ones. A Dirichlet with this mean and this total always decomposes: clipping each
    concentration apart from its probability would allow knowledge to exceed the total.

    Example:

    >>> found = uncertainty.from_log_concentrations(np.log([[[8.0, 1.0, 1.0]]]))
    >>> found["probs"].numpy().round(1)
    array([[0.8, 0.1, 0.1]])
    """
    logits = _as_members(member_logits, "member_logits")
    total_concentration = tf.reduce_sum(concentrations_from_logits(logits), axis=-1, keepdims=True)
    return _dirichlet(tf.nn.softmax(logits, axis=-1), _log_softmax(logits), total_concentration)


def from_members(kind: str, member_logits: TensorLike) -> dict[str, tf.Tensor]:
    """Uncertainties of a predictor's member stack.

    Args:
      kind: `"categorical"` (logits or log-probabilities) or `"dirichlet"` (log-concentrations).
      member_logits: `[members, batch, classes]` or `[batch, classes]`.

    Example:

    >>> kind, member_logits = model.predict_members(images)
    >>> found = uncertainty.from_members(kind, member_logits)
    >>> found["knowledge"].shape
    TensorShape([40])
    """
    _check_kind(kind)
    return {"categorical": from_log_probs, "dirichlet": from_log_concentrations}[kind](
        member_logits
    )


def confidence_score(kind: str, member_logits: TensorLike) -> tf.Tensor:
    """Out-of-distribution score of confidence: the negated log of the largest mean probability.

    Larger means more uncertain. Probabilities near 1 round to ties; this is computed from the
    probability of all other classes, -ln(1 - sum_{c not largest} p_c), which keeps its digits.

    Args:
      kind: `"categorical"` or `"dirichlet"`; the mean prediction of either is the softmax.
      member_logits: `[members, batch, classes]` or `[batch, classes]`; float64 for evaluation.

    Returns:
      `[batch]`, in the dtype of `member_logits`.

    Example:

    >>> score = uncertainty.confidence_score("categorical", np.array([[0.0, 0.0], [40.0, 0.0]]))
    >>> bool(score[0] > score[1] > 0.0)                    # no tie where softmax is 1.0
    True
    """
    _check_kind(kind)
    logits = _as_members(member_logits, "member_logits")
    probs = tf.reduce_mean(tf.nn.softmax(logits, axis=-1), axis=0)
    is_largest = tf.one_hot(
        tf.argmax(probs, axis=-1), tf.shape(probs)[-1], on_value=True, off_value=False
    )
    others = tf.reduce_sum(tf.where(is_largest, tf.zeros_like(probs), probs), axis=-1)
    return -tf.math.log1p(-others)


def _check_kind(kind):
    require(
        kind in KINDS,
        f"kind: expected one of {list(KINDS)}, received {kind!r}. Choose one of these.",
    )


def _as_members(value, name):
    members = as_float(value, name)
    require(
        members.shape.rank in (2, 3),
        f"{name}: expected the shape [members, batch, classes] or [batch, classes], "
        f"received {tuple(members.shape)}. Put the members first.",
    )
    check_classes(members, name)
    if members.shape.rank == 2:
        return tf.expand_dims(members, axis=0)
    require(
        members.shape[0] != 0,
        f"{name}: expected at least one member, received the shape "
        f"{tuple(members.shape)}. Pass one or more.",
    )
    return members


def _log(probs):
    return tf.math.log(tf.maximum(probs, _MIN_PROB))


def _log_softmax(logits):
    # A logit of -infinity is a legal zero probability.
    return tf.maximum(tf.nn.log_softmax(logits, axis=-1), MIN_LOG_PROB)


def _categorical(probs, log_probs):
    data = tf.reduce_mean(_entropy(probs, log_probs), axis=0)
    return _answer(probs, data, _disagreement(probs, log_probs))


def _dirichlet(probs, log_probs, total_concentration):
    # A class whose probability underflows contributes nothing, but ln 0 would make it a NaN.
    concentrations = tf.maximum(probs * total_concentration, _MIN_PROB)
    # Classes and total in one piece: half the operations, which is what a single image costs.
    both = tf.concat([concentrations, total_concentration], axis=-1)
    beyond_log = digamma_minus_log(both)
    excess = beyond_log[..., :-1] - beyond_log[..., -1:]
    knowledge = tf.nn.relu(tf.reduce_sum(probs * excess, axis=-1))
    # The expected entropy, sum_c p_c (psi(a_0 + 1) - psi(a_c + 1)), keeps its digits where nearly
    # all is knowledge, entropy minus knowledge where nearly none is.
    next_digamma = digamma(both + 1.0)
    scattered = tf.reduce_sum(probs * (next_digamma[..., -1:] - next_digamma[..., :-1]), axis=-1)
    concentrated = _entropy(probs, log_probs) - knowledge
    data = tf.nn.relu(tf.where(total_concentration[..., 0] < 1.0, scattered, concentrated))
    return _answer(
        probs,
        tf.reduce_mean(data, axis=0),
        tf.reduce_mean(knowledge, axis=0) + _disagreement(probs, log_probs),
    )


def _answer(member_probs, data, knowledge):
    probs = tf.reduce_mean(member_probs, axis=0)
    confidence = tf.reduce_max(probs, axis=-1)
    return dict(zip(NAMES, (probs, confidence, data + knowledge, data, knowledge), strict=True))


def _entropy(probs, log_probs):
    return tf.nn.relu(tf.reduce_sum(probs * -log_probs, axis=-1))


def _disagreement(probs, log_probs):
    """Mean KL divergence of the members' predictions from their average.

    With r the ratio of a probability to its average q, sum_c q_c (r_c ln r_c - r_c + 1) is the
    same divergence in terms that are never negative, and that a relative error in r changes only
    to second order. expm1 is written with tanh, which every runtime has.
    """
    if log_probs.shape[0] == 1:
        return tf.zeros_like(log_probs[0, :, 0])
    num_members = tf.cast(tf.shape(log_probs)[0], log_probs.dtype)
    # tf.reduce_logsumexp would bring IsFinite, which not every runtime has.
    largest = tf.reduce_max(log_probs, axis=0)
    log_mean = largest + tf.math.log(
        tf.reduce_sum(tf.exp(log_probs - largest), axis=0) / num_members
    )
    log_ratio = tf.maximum(log_probs - log_mean, _MIN_LOG_RATIO)
    half = tf.tanh(0.5 * log_ratio)
    terms = (log_ratio * (1.0 + half) - 2.0 * half) / (1.0 - half)
    mean_probs = tf.reduce_mean(probs, axis=0)
    return tf.reduce_mean(tf.reduce_sum(mean_probs * tf.nn.relu(terms), axis=-1), axis=0)
