"""Intents of sentences, and sentences that have none: S2D on a frozen text encoder (CLINC150).

    pip install 's2d_tf[text]'
    python examples/text_intents.py --encoder=FOLDER --workdir=text_intents

FOLDER holds all-MiniLM-L6-v2 as Hugging Face publishes it; `clinc150/data_full.json` is in the
folder of the datasets (docs/data.md). Sentence vectors are computed once, which takes some minutes
on two cores; a fit on them takes seconds. All of it is kept in the workdir: a stopped command
continues.

Settings are compared on the validation sentences only. The test sentences are looked at once, with
the settings that were chosen. Writes `text_intents.json` and `text_intents.md` to --out.
"""

import argparse
import hashlib
import json
import pathlib

import keras
import numpy as np

from s2d_tf import data, evaluation, files, metrics, models

KNOWN, UNKNOWN = "clinc150", "clinc150_oos"
SEQUENCE_LENGTH, WIDTH, BATCH, RATE = 32, 512, 128, 1e-3
SEEDS, SWEEP_SEEDS = range(5), range(1)
METHODS = {"plain": models.Classifier, "s2d": models.S2DClassifier}
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
        "temperature": [1.0, 1.5, "auto"], "student_weight": [1.28e-4, 1e-3, 1e-2],
        "noise_stddev": [[0.0, 0.5], [0.0, 1.0]], "student_loss": ["balanced_kl", "kl"],
        "epochs": [10, 20],
    },
}  # fmt: skip


def sentence_classifier(folder, sequence_length=SEQUENCE_LENGTH):
    """A Keras classifier from texts: MiniLM, the mean over its tokens, and a linear layer.

    `from_classifier` keeps the preprocessor in front, as of every KerasHub task model.
    """
    try:
        import keras_hub
    except ImportError as error:
        raise SystemExit(
            f"keras_hub: expected the package, received {error}. Run pip install 's2d_tf[text]'."
        ) from None
    encoder = keras_hub.models.BertBackbone.from_preset(folder)
    vectors = keras.layers.GlobalAveragePooling1D()(
        encoder.output["sequence_output"], mask=encoder.input["padding_mask"]
    )
    outputs = keras.layers.Dense(data.info(KNOWN).num_classes)(vectors)
    classifier = keras.Model(encoder.input, outputs, name="sentences")
    classifier.preprocessor = keras_hub.models.BertTextClassifierPreprocessor.from_preset(
        folder, sequence_length=sequence_length
    )
    return classifier


class Study:
    """Sentence vectors, fits on them and their metrics, each computed once and kept in a folder.

    Args:
        workdir: the folder.
        encoder: function without arguments that makes the classifier whose features are the
            sentence vectors; called when a vector is missing.
        identity: what the vectors follow from, as a string.
        data_dir: folder of the datasets.
    """

    def __init__(self, workdir, encoder, identity, data_dir=None):
        self.workdir, self.encoder = pathlib.Path(workdir), encoder
        self.identity, self.data_dir = identity, data_dir
        self._cast = None

    @property
    def cast(self):
        """The encoder as a model of this library, which takes texts."""
        self._cast = self._cast or models.Classifier.from_classifier(self.encoder(), freeze=True)
        return self._cast

    def load(self, name, split):
        """Sentence vectors float32 `[n, d]` and labels."""
        sentences, labels = data.load_arrays(name, split, self.data_dir)
        key = _hash([self.identity, data.fingerprint(sentences, labels)])
        path = self.workdir / "vectors" / f"{name}.{split}.{key}.npy"
        if not path.is_file():
            print(f"Encoding {len(sentences):,} sentences of {name} {split}", flush=True)
            files.write_array(path, self.cast.predict_features(sentences, batch_size=128))
        return np.load(path, allow_pickle=False), labels

    def fit(self, method, settings, seed):
        """A model from sentence vectors, with one hidden layer, trained with Adam."""
        key = _hash([self.identity, method, settings, seed, WIDTH, BATCH, RATE])
        path = self.workdir / "fits" / f"{method}.{key}.weights.h5"
        keras.utils.set_random_seed(seed)
        x, y = self.load(KNOWN, "train")
        vectors = keras.Input([x.shape[1]], name="vectors")
        hidden = keras.layers.Dense(WIDTH, "relu", name="hidden")(vectors)
        model = build(method, settings, seed, keras.Model(vectors, hidden))
        if path.is_file():
            model.load_weights(path)
            return model
        model.compile(keras.optimizers.Adam(RATE), jit_compile=False)
        held_out = {}
        if settings.get("temperature") == "auto":
            held_out["validation_data"] = self.load(KNOWN, "validation")
        model.fit(x, y, batch_size=BATCH, epochs=settings["epochs"], verbose=0, **held_out)
        with files.written_beside(path) as temporary:
            model.save_weights(temporary)
        return model

    def measure(self, method, settings, seed, split):
        """Accuracy, likelihood, calibration and detection of the out-of-scope sentences.

        Returns:
            Flat dict, keys as of `evaluation.evaluate`.
        """
        model = self.fit(method, settings, seed)
        x, y = self.load(KNOWN, split)
        known = evaluation.scores(*model.predict_members(x))
        unknown = evaluation.scores(*model.predict_members(self.load(UNKNOWN, split)[0]))
        found = {f"{KNOWN}/accuracy": metrics.accuracy(np.exp(known["log_probs"]), y)}
        found |= _calibration("", known["log_probs"], y)
        if split == "test":  # a temperature needs other sentences than those it is judged on
            x, held_out = self.load(KNOWN, "validation")
            fitted = evaluation.scores(*model.predict_members(x))["log_probs"]
            temperature = metrics.fit_temperature(fitted, held_out)
            scaled = metrics.scale_log_probs(known["log_probs"], temperature)
            found |= {f"{KNOWN}/temperature": temperature, **_calibration("scaled_", scaled, y)}
        for name in evaluation.names.UNCERTAINTIES:
            if name in known:
                found[f"{UNKNOWN}/auroc/{name}"] = metrics.auroc(known[name], unknown[name])
                found[f"{UNKNOWN}/aupr/{name}"] = metrics.aupr(known[name], unknown[name])
        line = ", ".join(f"{key.split('/', 1)[1]} {value:.4f}" for key, value in found.items())
        print(f"{method} {settings} seed {seed}, {split}: {line}", flush=True)
        return found

    def choose(self, method):
        """The settings with the lowest validation NLL, one setting after the other.

        Returns:
            The settings, and all that were tried: `[{"settings": ..., "validation": metrics}]`.
        """
        best, tried = dict(START[method]), []
        for name, values in SWEEPS[method].items():
            candidates = [{**best, name: value} for value in values]
            for settings in candidates:
                if any(settings == other["settings"] for other in tried):
                    continue
                runs = [self.measure(method, settings, s, "validation") for s in SWEEP_SEEDS]
                mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
                tried.append({"settings": settings, "validation": mean})
            of_these = [each for each in tried if each["settings"] in candidates]
            best = min(of_these, key=lambda each: each["validation"][f"{KNOWN}/nll"])["settings"]
        return best, tried

    def whole_model(self, method, settings, seed):
        """From texts to answers: the encoder, and the model that was trained on its vectors."""
        encoder, head = self.cast.backbone, self.fit(method, settings, seed)
        backbone = keras.Model(encoder.input, head.backbone(encoder.output), name="texts")
        return build(method, settings, seed, backbone).take_head(head)


def build(method, settings, seed, backbone):
    """The model of a method on a backbone that makes features."""
    settings = {name: value for name, value in settings.items() if name != "epochs"}
    model = METHODS[method](backbone, data.info(KNOWN).num_classes, seed=seed, **settings)
    model.class_names = list(data.info(KNOWN).class_names)
    return model


def _calibration(prefix, log_probs, labels):
    nll = metrics.negative_log_likelihood_from_log_probs(log_probs, labels)
    ece = metrics.expected_calibration_error(np.exp(log_probs), labels)
    return {f"{KNOWN}/{prefix}nll": nll, f"{KNOWN}/{prefix}ece": ece}


def _hash(parts):
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def page(record):
    """The results as Markdown: over seeds, in pairs of seeds, and all that was tried."""
    return "\n".join(
        [
            "# Intents of sentences: CLINC150 on a frozen MiniLM encoder\n",
            "Output of `python examples/text_intents.py`: one hidden layer on cached vectors.",
            f"Settings by the lowest validation NLL: {json.dumps(record['chosen'])}.\n",
            over_seeds(record["test"]),
            sweep(record["sweep"]),
        ]
    )


def over_seeds(results):
    """Mean and two standard deviations of both methods, and the paired difference."""
    names, rows = evaluation.names, []
    for key in results["s2d"][0]:
        values = [[run[key] for run in runs if key in run] for runs in results.values()]
        cells = [
            names.format_value(key, *evaluation.statistics.mean_and_two_std(each)) if each else ""
            for each in values
        ]
        difference = ""
        if all(values):
            compared = evaluation.statistics.compare_over_seeds(*values[::-1])
            parts = compared.mean_difference, compared.low, compared.high
            difference = "{} [{}, {}]".format(*(names.format_difference(key, p) for p in parts))
        title = names.metric_title(key) + (", temperature scaled" if "scaled_" in key else "")
        rows.append([title, *cells, difference])
    return _markdown(
        f"Test split, {len(results['s2d'])} seeds: mean ± two standard deviations",
        ["metric", *results, "s2d minus plain [95%]"],
        rows,
        ["AUROC and AUPR are of detecting the out-of-scope sentences, which are positive."],
    )


def sweep(tried):
    """Every setting that was compared on the validation split."""
    keys = [f"{KNOWN}/{name}" for name in ("nll", "accuracy", "ece")]
    keys += [f"{UNKNOWN}/auroc/{name}" for name in ("total", "knowledge")]
    rows = [
        [method, json.dumps(each["settings"]).replace('"', ""), *(
            evaluation.names.format_value(key, each["validation"][key])
            if key in each["validation"] else "" for key in keys
        )]
        for method, settings in tried.items() for each in settings
    ]  # fmt: skip
    titles = [evaluation.names.metric_title(key) for key in keys]
    caption = f"Validation split, seeds {', '.join(map(str, SWEEP_SEEDS))}"
    return _markdown(caption, ["method", "settings", *titles], rows)


def _markdown(caption, columns, rows, footnotes=()):
    table = evaluation.tables.make(caption, columns, [rows], footnotes=footnotes)
    return evaluation.tables.render(table, "markdown")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", required=True, help="Folder of all-MiniLM-L6-v2.")
    parser.add_argument("--data_dir", help="Folder of the datasets.")
    parser.add_argument("--workdir", default="text_intents", help="What is computed once.")
    parser.add_argument("--out", default="text_intents", help="Folder of the results.")
    flags = parser.parse_args()
    hashes = {
        name: files.sha256(pathlib.Path(flags.encoder) / name)
        for name in ("model.safetensors", "vocab.txt")
    }
    identity = json.dumps([hashes, SEQUENCE_LENGTH])
    study = Study(
        flags.workdir, lambda: sentence_classifier(flags.encoder), identity, flags.data_dir
    )
    chosen, tried, results = {}, {}, {}
    for method in METHODS:
        chosen[method], tried[method] = study.choose(method)
        print(f"{method}: chose {chosen[method]}", flush=True)
    for method, settings in chosen.items():
        results[method] = [study.measure(method, settings, seed, "test") for seed in SEEDS]
    out = pathlib.Path(flags.out)
    record = {
        "encoder": {"folder": pathlib.Path(flags.encoder).name, "sha256": hashes},
        "data": {"name": KNOWN, "sha256": data.clinc150.SHA256},
        "network": {
            "sequence_length": SEQUENCE_LENGTH, "width": WIDTH, "batch_size": BATCH,
            "learning_rate": RATE,
        },
        "chosen": chosen, "sweep": tried, "test": results,
    }  # fmt: skip
    files.write_json(out / "text_intents.json", record)
    files.write_text(out / "text_intents.md", page(record))
    print(over_seeds(results))

    model = study.whole_model("s2d", chosen["s2d"], seed=0)
    for text in ("set an alarm for six", "how far away is the moon"):
        answer = model.predict_uncertainty(np.array([text]))
        intent = model.class_names[answer["probs"][0].argmax()]
        print(
            f"{text!r}: {intent}, confidence {answer['confidence'][0]:.2f}, "
            f"knowledge uncertainty {answer['knowledge'][0]:.3f}"
        )


if __name__ == "__main__":
    main()
