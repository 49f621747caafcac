# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Your own Keras model: text
#
# You have a trained Keras classifier and want to know when not to trust it. Here it sorts
# questions to a voice assistant into 150 intents (CLINC150, CC BY 3.0). People also ask things
# that have none of these intents, and a softmax classifier assigns one anyway.
#
# The notebook reads `clinc150/data_full.json` in the TFDS folder; `s2d data clinc150` says how to
# get it.

# %%
import keras
import matplotlib.pyplot as plt
import numpy as np

import s2d_tf.trainers.datasets  # noqa: F401 (registers CLINC150)
from s2d_tf import data, evaluation, models

sentences, intents = data.load_arrays("clinc150", "train")
test_sentences, test_intents = data.load_arrays("clinc150", "test")
out_of_scope, _ = data.load_arrays("clinc150_oos", "test")
print(len(sentences), "sentences, for example:", sentences[0], "|", sentences[5000])

# %% [markdown]
# ## The model you have
#
# An ordinary Keras model from strings to a softmax: words and pairs of words, an embedding, one
# hidden layer.

# %%
keras.utils.set_random_seed(0)
tokens = keras.layers.TextVectorization(
    max_tokens=12_000, ngrams=2, output_mode="int", output_sequence_length=40
)
tokens.adapt(sentences)
ids = keras.Input([40], dtype="int64")
hidden = keras.layers.Embedding(12_000, 192)(ids)
hidden = keras.layers.GlobalAveragePooling1D()(hidden)
hidden = keras.layers.Dense(256, "relu")(hidden)
plain = keras.Model(ids, keras.layers.Dense(150, "softmax")(hidden))
plain.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
plain.fit(tokens(sentences), intents, batch_size=128, epochs=8, verbose=2)

# %% [markdown]
# ## The same model with S2D
#
# `from_classifier` keeps the network and its weights and adds S2D's training step. A few more
# epochs teach it how much its own noisy predictions disagree. The plain model gets the same extra
# epochs, so that the comparison is fair.

# %%
twin = keras.models.clone_model(plain)  # the cast model shares the layers of what it is cast from
twin.set_weights(plain.get_weights())
plain.preprocessor = twin.preprocessor = tokens  # stays in front: strings go in
model = models.S2DClassifier.from_classifier(twin, student_weight=1e-3, temperature=1.0, seed=0)
model.compile(keras.optimizers.Adam(1e-3))
model.fit(sentences, intents, batch_size=128, epochs=4, verbose=2)

plain.optimizer.learning_rate = 1e-3
plain.fit(tokens(sentences), intents, batch_size=128, epochs=4, verbose=0)
baseline = models.Classifier.from_classifier(plain)

# %% [markdown]
# Strings go in, uncertainties come out:

# %%
asked = np.array(
    ["what is my checking account balance", "set an alarm for six", "who won the world cup in 1998"]
)
answer = model.predict_uncertainty(asked)
answer.plot(asked)

# %% [markdown]
# ## Does it know what it does not know?

# %%
ood = {"out_of_scope": out_of_scope}
named = {"plain": baseline, "S2D": model}
for title, m in named.items():
    found = evaluation.evaluate(m, (test_sentences, test_intents), ood=ood, name="intents")
    for key in ("intents/accuracy", "intents/nll", "intents/ece"):
        print(f"{title:6}{key:32}{found[key]:.3f}")
    for key in (key for key in found if key.startswith("out_of_scope/auroc/")):
        print(f"{title:6}{key:32}{found[key]:.3f}")

# %% [markdown]
# The last rows are the detection of out-of-scope questions by confidence and by total, data and
# knowledge uncertainty. A single softmax does not decompose, so it has only the first two.
#
# What this means in use: let the assistant ask back whenever the uncertainty is high. How many
# questions does it then answer, and how many of these answers are wrong?

# %%
figure, axis = plt.subplots(figsize=(6, 3.6))
for title, m in named.items():
    known, unknown = m.predict_uncertainty(test_sentences), m.predict_uncertainty(out_of_scope)
    scores = np.concatenate([known["total"], unknown["total"]])
    wrong = np.concatenate([known["label"] != test_intents, np.ones(len(out_of_scope))])
    order = np.argsort(scores, kind="stable")
    answered = np.arange(1, len(order) + 1) / len(order)
    error = np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)
    axis.plot(100 * answered, 100 * error, label=f"{title}, by total uncertainty")
axis.set(xlabel="% of questions answered", ylabel="% of answers that are wrong", ylim=(0, None))
axis.legend()
plt.show()

# %% [markdown]
# A lower curve is better. At the right end everything is answered, including a thousand questions
# that have no answer.
#
# A pretrained encoder gives a much stronger model; `examples/text_intents.py` does the same with
# MiniLM.
