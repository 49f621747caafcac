"""Classifies sentences by intent, and detects those with none: S2D on a frozen encoder (CLINC150).

    pip install 's2d_tf[text]'
    python examples/text_intents.py --encoder=FOLDER --workdir=text_intents

FOLDER is all-MiniLM-L6-v2 from Hugging Face. Put `clinc150/data_full.json` into the dataset folder
(docs/your-model.md). Encoding the sentences takes some minutes on two cores, once; each fit takes
seconds.

Settings are compared on the validation sentences. The test sentences are evaluated once, with the
chosen settings. Writes `text_intents.json` and `text_intents.md` to --out. The published results
(results/text_intents.md) are of version 0.1, whose S2D could also choose its temperature itself.
"""

import argparse
import json
import pathlib

import keras
import numpy as np
from scipy import stats

import s2d_tf.trainers.datasets  # noqa: F401 (registers CLINC150)
from s2d_tf import data, evaluation, files, models, posthoc

KNOWN, UNKNOWN = "clinc150", "clinc150_oos"
SEQUENCE_LENGTH = 32  # CLINC150's longest sentences have 28 words
WIDTH, BATCH_SIZE, LEARNING_RATE = 512, 128, 1e-3
SEEDS = range(5)
REPORTED = ("accuracy", "nll", "ece", "scaled_nll", "scaled_ece", "auroc", "aupr")
# A sweep starts here and changes one setting after the other, in this order.
START = {
    "plain": {"epochs": 10, "weight_decay": 0.0},
    "s2d": {
        "epochs": 10, "student_weight": 1e-3, "temperature": 1.5, "noise_stddev": [0.0, 0.5],
        "student_loss": "balanced_kl",
    },
}  # fmt: skip
SWEEPS = {
    "plain": {"weight_decay": [0.0, 1e-5, 1e-4], "epochs": [10, 20]},
    "s2d": {
        "temperature": [1.0, 1.5], "student_weight": [1.28e-4, 1e-3, 1e-2],
        "noise_stddev": [[0.0, 0.5], [0.0, 1.0]], "student_loss": ["balanced_kl", "kl"],
        "epochs": [10, 20],
    },
}  # fmt: skip


def load_encoder(folder):
    """The encoder as a model of this library: texts in, the mean over their tokens out."""
    import keras_hub

    folder = str(pathlib.Path(folder).expanduser())
    encoder = keras_hub.models.BertBackbone.from_preset(folder)
    vectors = keras.layers.GlobalAveragePooling1D()(
        encoder.output["sequence_output"], mask=encoder.input["padding_mask"]
    )
    classifier = keras.Model(encoder.input, keras.layers.Dense(2)(vectors))
    classifier.preprocessor = keras_hub.models.BertTextClassifierPreprocessor.from_preset(
        folder, sequence_length=SEQUENCE_LENGTH
    )
    return models.Classifier.from_classifier(classifier)


class Study:
    """Sentence vectors, each computed once and kept in a folder, and fits on them.

    Args:
        workdir: the folder of the vectors.
        encoder: folder of the encoder; read when vectors are missing.
        data_dir: folder of the datasets.
    """

    def __init__(self, workdir, encoder, data_dir=None):
        self.workdir, self.folder = pathlib.Path(workdir), encoder
        self.data_dir, self._encoder = data_dir, None

    def encode(self, sentences):
        self._encoder = self._encoder or load_encoder(self.folder)
        return self._encoder.predict_features(sentences, batch_size=128)

    def load(self, name, split):
        """Sentence vectors float32 `[n, d]` and labels."""
        sentences, labels = data.load_arrays(name, split, self.data_dir)
        path = self.workdir / f"{name}.{split}.{data.fingerprint(sentences, labels)[:16]}.npy"
        if not path.is_file():
            print(f"Encoding {len(sentences):,} sentences of {name} {split}", flush=True)
            files.write_array(path, self.encode(sentences))
        return np.load(path, allow_pickle=False), labels

    def fit(self, method, settings, seed):
        """One hidden layer and a head on cached vectors."""
        x, y = self.load(KNOWN, "train")
        options = dict(settings)
        epochs, build = options.pop("epochs"), models.Classifier
        if method == "s2d":
            build = models.S2DClassifier
            options["noise_stddev"] = tuple(options["noise_stddev"])
        keras.utils.set_random_seed(seed)
        hidden = keras.layers.Dense(WIDTH, "relu", name="hidden")
        backbone = keras.Sequential([keras.Input(x.shape[1:]), hidden])
        model = build(backbone, data.info(KNOWN).num_classes, seed=seed, **options)
        model.compile(keras.optimizers.Adam(LEARNING_RATE), jit_compile=False)
        model.fit(x, y, batch_size=BATCH_SIZE, epochs=epochs, verbose=0)
        model.class_names = list(data.info(KNOWN).class_names)
        return model

    def measure(self, model, split):
        """Accuracy, likelihood, calibration and detection of the out-of-scope sentences.

        Returns:
            Flat dict, keys as of `evaluation.evaluate`. On the test split also `scaled_`: after
            temperature scaling on the validation sentences.
        """
        known, ood = self.load(KNOWN, split), {UNKNOWN: self.load(UNKNOWN, split)[0]}
        found = evaluation.evaluate(model, known, ood=ood, name=KNOWN)
        if split == "test":
            scaled = posthoc.TemperatureScaling().fit(model, self.load(KNOWN, "validation"))
            after = evaluation.evaluate(scaled, known, name=KNOWN)
            found |= {f"{KNOWN}/scaled_{name}": after[f"{KNOWN}/{name}"] for name in ("nll", "ece")}
        return {key: found[key] for key in found if key.split("/")[1] in REPORTED}

    def choose(self, method):
        """The settings with the lowest validation NLL, one setting after the other.

        Returns:
            The settings, and all that were tried: `[{"settings": ..., "validation": metrics}]`.
        """
        best, tried = dict(START[method]), []
        for name, values in SWEEPS[method].items():
            candidates = [{**best, name: value} for value in values]
            for settings in candidates:
                if settings not in [each["settings"] for each in tried]:
                    found = self.measure(self.fit(method, settings, seed=0), "validation")
                    tried.append({"settings": settings, "validation": found})
                    print(f"{method} {settings}: NLL {found[f'{KNOWN}/nll']:.4f}", flush=True)
            of_these = [each for each in tried if each["settings"] in candidates]
            best = min(of_these, key=lambda each: each["validation"][f"{KNOWN}/nll"])["settings"]
        return best, tried


def page(record):
    """The results as Markdown: over seeds, in pairs of seeds, and all that was tried."""
    lines = [
        "# Sentence intents: CLINC150 on a frozen MiniLM encoder\n",
        f"Settings with the lowest validation NLL: {json.dumps(record['chosen'])}.\n",
        over_seeds(record["test"]),
        "\n| method | settings | validation NLL |\n| --- | --- | ---: |",
    ]
    for method, tried in record["sweep"].items():
        for each in tried:
            nll = each["validation"][f"{KNOWN}/nll"]
            lines.append(f"| {method} | {json.dumps(each['settings'])} | {nll:.4f} |")
    return "\n".join(lines) + "\n"


def over_seeds(results):
    """Mean and two standard deviations of both methods, and the paired difference."""
    lines = ["| metric | plain | s2d | s2d minus plain [95%] |", "| --- | ---: | ---: | ---: |"]
    for key in results["s2d"][0]:
        pair = [np.array([run[key] for run in runs if key in run]) for runs in results.values()]
        cells = [f"{v.mean():.4f} ± {2 * v.std(ddof=1):.4f}" if len(v) else "" for v in pair]
        difference = ""
        if all(map(len, pair)):
            change = pair[1] - pair[0]
            half = stats.t.ppf(0.975, len(change) - 1) * stats.sem(change)
            low, high = change.mean() - half, change.mean() + half
            difference = f"{change.mean():+.4f} [{low:+.4f}, {high:+.4f}]"
        lines.append(f"| {' | '.join([key, *cells, difference])} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", required=True, help="Folder with all-MiniLM-L6-v2.")
    parser.add_argument("--data_dir", help="Dataset folder (default: TFDS_DATA_DIR).")
    parser.add_argument("--workdir", default="text_intents", help="Folder for sentence vectors.")
    parser.add_argument("--out", default="text_intents", help="Folder for the results.")
    flags = parser.parse_args()
    study = Study(flags.workdir, flags.encoder, flags.data_dir)
    record = {"chosen": {}, "sweep": {}, "test": {}}
    for method in START:
        record["chosen"][method], record["sweep"][method] = study.choose(method)
    for method, settings in record["chosen"].items():
        fitted = [study.fit(method, settings, seed) for seed in SEEDS]
        record["test"][method] = [study.measure(model, "test") for model in fitted]
    out = pathlib.Path(flags.out)
    files.write_json(out / "text_intents.json", record)
    files.write_text(out / "text_intents.md", page(record))
    print(over_seeds(record["test"]))
    texts = np.array(["set an alarm for six", "how far away is the moon"])
    print(fitted[0].predict_uncertainty(study.encode(texts)))


if __name__ == "__main__":
    main()
