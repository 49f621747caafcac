"""Classifies sentences by intent, and detects those with none: S2D on a frozen encoder (CLINC150).

    pip install 's2d_tf[text]'
    python examples/text_intents.py --encoder=FOLDER --workdir=text_intents

FOLDER is all-MiniLM-L6-v2 from Hugging Face. Put `clinc150/data_full.json` into the dataset folder
(docs/data.md). Encoding the sentences takes some minutes on two cores, once; each fit takes
seconds. Rerun the command to resume.

Settings are compared on the validation sentences. The test sentences are evaluated once, with the
chosen settings. Writes `text_intents.json` and `text_intents.md` to --out, and prints the run
directories of the two models in the zoo.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import time

import keras
import numpy as np

from s2d_tf import data, evaluation, files, models, zoo
from s2d_tf.trainers.datasets import clinc150
from s2d_tf.zoo import encoders, layout, networks, recipes, weights

KNOWN, UNKNOWN = "clinc150", "clinc150_oos"
ENTRIES = {"plain": f"minilm_l6_512.individual.{KNOWN}", "s2d": f"minilm_l6_512.s2d.{KNOWN}"}
ENCODER = recipes.resolve(ENTRIES["s2d"]).stands_on
SEEDS, SWEEP_SEEDS = range(5), range(1)
REPORTED = ("accuracy", "nll", "ece", "temperature", "scaled_nll", "scaled_ece", "auroc", "aupr")
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


class Study:
    """Sentence vectors and fits on them, each computed once and kept in a folder.

    Args:
        workdir: the folder. Fits are run directories in it.
        encoder: folder of the encoder; read when a vector is missing.
        data_dir: folder of the datasets.
    """

    def __init__(self, workdir, encoder, data_dir=None):
        self.workdir, self.encoder = pathlib.Path(workdir), encoder
        self.data_dir, self._cast = data_dir, None

    @property
    def cast(self):
        """The encoder as a model of this library, which takes texts."""
        self._cast = self._cast or models.Classifier(encoders.load(ENCODER, self.encoder), 2)
        return self._cast

    def load(self, name, split):
        """Sentence vectors float32 `[n, d]` and labels."""
        sentences, labels = data.load_arrays(name, split, self.data_dir)
        key = _hash([ENCODER.sha256, ENCODER.sequence_length, data.fingerprint(sentences, labels)])
        path = self.workdir / "vectors" / f"{name}.{split}.{key}.npy"
        if not path.is_file():
            print(f"Encoding {len(sentences):,} sentences of {name} {split}", flush=True)
            files.write_array(path, self.cast.predict_features(sentences, batch_size=128))
        return np.load(path, allow_pickle=False), labels

    def run(self, method, settings, seed):
        """The run directory of a fit; `s2d evaluate` and `s2d publish` take it."""
        recipe = recipes.resolve(ENTRIES[method])
        named = {"epochs": "training", "weight_decay": "training"}
        assignments = [
            f"{named.get(name, 'model')}.{name}={json.dumps(value)}"
            for name, value in {"weight_decay": 0.0, **settings}.items()
        ]
        recipe = recipes.override(recipe, assignments)
        directory = self.workdir / "runs" / f"{method}.{_hash([recipe.to_dict(), seed])}"
        run = zoo.Run.create(directory, recipe, seed)
        if not run.finished:
            self._fit(run)
        return run

    def _fit(self, run):
        """Trains the hidden layer and the head on cached vectors with Adam."""
        recipe, held_out, (x, y) = run.recipe, {}, self.load(KNOWN, "train")
        if recipe.learns == "self" and recipe.model.temperature == "auto":
            held_out["validation_data"] = self.load(KNOWN, "validation")
        began = time.monotonic()
        model = networks.build_network(recipe, run.seed)
        # Drawn as when the results were made: from the seed of the process, like the order.
        keras.utils.set_random_seed(run.seed)
        kernel = model.backbone.get_layer("hidden").kernel
        kernel.assign(keras.initializers.GlorotUniform()(kernel.shape))
        model.compile(keras.optimizers.Adam(recipe.training.learning_rate), jit_compile=False)
        size, epochs = recipe.data.batch_size, recipe.training.epochs
        history = model.fit(x, y, batch_size=size, epochs=epochs, verbose=0, **held_out)
        facts = {
            "name": recipe.name,
            "seed": run.seed,
            "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "training_seconds": round(time.monotonic() - began, 1),
            "parameters": model.num_parameters,
            "last_epoch": {name: values[-1] for name, values in history.history.items()},
            "inputs": model.contract.to_dict(),
            "command": "python examples/text_intents.py --encoder=FOLDER",
            **({"validated_on": "validation"} if held_out else {}),
        }
        files.write_json(run.directory / layout.SUMMARY, facts)
        weights.save(model, run.weights())

    def measure(self, method, settings, seed, split):
        """Accuracy, likelihood, calibration and detection of the out-of-scope sentences.

        Returns:
            Flat dict, keys as of `evaluation.evaluate`.
        """
        run = self.run(method, settings, seed)
        model, (unknown, _) = run.predictor(), self.load(UNKNOWN, split)
        scored_sets = evaluation.score_datasets(
            model, self.load(KNOWN, split), {UNKNOWN: unknown}, name=KNOWN
        )
        found = scored_sets.metrics()
        if split == "test":  # a temperature needs other sentences than those it is judged on
            held_out = evaluation.predict(model, self.load(KNOWN, "validation"), name=KNOWN)
            scored = evaluation.score(held_out)
            found |= evaluation.scaled_metrics(KNOWN, scored_sets.known, scored)
            if not (run.directory / layout.METRICS).exists():  # `s2d evaluate` counts on from here
                files.write_json(run.directory / layout.METRICS, {"run/test_readings": 1})
        keys = [(REPORTED.index(m), key) for key in found if (m := key.split("/")[1]) in REPORTED]
        found = {key: found[key] for _, key in sorted(keys, key=lambda pair: pair[0])}
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


def _hash(parts):
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def page(record):
    """The results as Markdown: over seeds, in pairs of seeds, and all that was tried."""
    return "\n".join(
        [
            "# Sentence intents: CLINC150 on a frozen MiniLM encoder\n",
            "Output of `python examples/text_intents.py`: one hidden layer on cached vectors.",
            f"Settings with the lowest validation NLL: {json.dumps(record['chosen'])}.\n",
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
            names.format_value(key, *evaluation.intervals.mean_and_two_std(each)) if each else ""
            for each in values
        ]
        difference = ""
        if all(values):
            compared = evaluation.intervals.compare_over_seeds(*values[::-1])
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
    parser.add_argument("--encoder", required=True, help="Folder with all-MiniLM-L6-v2.")
    parser.add_argument("--data_dir", help="Dataset folder (default: TFDS_DATA_DIR).")
    parser.add_argument("--workdir", default="text_intents", help="Folder for vectors and runs.")
    parser.add_argument("--out", default="text_intents", help="Folder for the results.")
    flags = parser.parse_args()
    encoders.check(ENCODER, flags.encoder)
    study = Study(flags.workdir, flags.encoder, flags.data_dir)
    chosen, tried, results = {}, {}, {}
    for method in ENTRIES:
        chosen[method], tried[method] = study.choose(method)
        print(f"{method}: chose {chosen[method]}", flush=True)
    for method, settings in chosen.items():
        results[method] = [study.measure(method, settings, seed, "test") for seed in SEEDS]
    out, recipe = pathlib.Path(flags.out), recipes.resolve(ENTRIES["s2d"])
    record = {
        "encoder": {"name": ENCODER.name, "sha256": ENCODER.sha256},
        "data": {"name": KNOWN, "sha256": clinc150.SHA256},
        "network": {
            "sequence_length": ENCODER.sequence_length, **recipe.arguments,
            "batch_size": recipe.data.batch_size, "learning_rate": recipe.training.learning_rate,
        },
        "chosen": chosen, "sweep": tried, "test": results,
    }  # fmt: skip
    files.write_json(out / "text_intents.json", record)
    files.write_text(out / "text_intents.md", page(record))
    print(over_seeds(results))

    for method, settings in chosen.items():
        run = study.run(method, settings, seed=0)
        print(f"{ENTRIES[method]}: {run.directory}")
    model = zoo.open_model(run.directory, encoder=flags.encoder).predictor
    for text in ("set an alarm for six", "how far away is the moon"):
        answer = model.predict_uncertainty([text])
        intent = model.class_names[answer["probs"][0].argmax()]
        print(
            f"{text!r}: {intent}, confidence {answer['confidence'][0]:.2f}, "
            f"knowledge uncertainty {answer['knowledge'][0]:.3f}"
        )


if __name__ == "__main__":
    main()
