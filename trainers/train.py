"""Trains a model by name, or resumes its training.

usage: s2d train NAME --workdir=DIR [--data_dir=DIR] [--seed=N] [--set KEY=VALUE ...]
       s2d train ARCHITECTURE.METHOD --data=FOLDER --workdir=DIR ...

    s2d train wrn_10_2_s2.s2d.cifar100 --workdir=runs/s2d --data_dir=~/tensorflow_datasets
    s2d train wrn_10_2_s2.s2d --data=flowers --workdir=runs/flowers

The second trains on your own images: flowers/CLASS/*.jpg, or flowers/train/CLASS/*.jpg with
flowers/test/ (docs/your-model.md). `s2d list --all` lists the names.

Rerun the command to resume, even within an epoch. An ensemble trains its members one after another.
A student of an ensemble finds its teachers next to its own directory, or in --teachers, which can
also name a pretrained ensemble. See docs/reproduce.md for multi-device training.

Exit codes: 0 finished; 75 stopped by SIGTERM and saved, or another worker is gone: rerun to resume;
130 stopped by Ctrl-C and saved; 1 failed; 2 wrong usage.
"""

from absl import flags, logging

from . import _flags, training

FLAGS = flags.FLAGS
flags.DEFINE_string("workdir", None, "Run directory; created if it does not exist.", required=True)
_flags.training()
flags.DEFINE_integer("members", None, "Size of an ensemble (paper: 5, 10, 20).", lower_bound=1)
flags.DEFINE_integer("member", None, "Train only this ensemble member, from 0.", lower_bound=0)
flags.DEFINE_string("split", "train", "Split to train on: train, or train_without_validation.")
flags.DEFINE_string("strategy", "auto", "Devices: auto, one_device, mirrored or multi_worker.")
flags.DEFINE_boolean("sync_batch_norm", False, "Compute batch statistics over all replicas.")
flags.DEFINE_boolean("deterministic", None, "Same bits in every run (default: only on one CPU).")
flags.DEFINE_float("checkpoint_seconds", 120, "Also checkpoint every N seconds; 0: off.")
flags.DEFINE_integer("checkpoint_steps", None, "Also checkpoint every N steps.")


def main(argv: list[str]) -> None:
    (name,) = _flags.arguments(
        argv, "NAME", "one name", "s2d train wrn_10_2_s2.s2d.digits --workdir=DIR", 1, 1
    )
    logging.set_verbosity(logging.INFO)
    logging.get_absl_logger().addFilter(lambda line: "tensorflow_datasets" not in line.pathname)
    named = training.resolve(name, FLAGS.data, FLAGS.image_size)
    recipe = training.override(named, FLAGS.set, FLAGS.epochs, FLAGS.members)
    settings = training.Settings(
        data_dir=FLAGS.data_dir,
        data=FLAGS.data,
        split=FLAGS.split,
        strategy=FLAGS.strategy,
        precision=FLAGS.precision,
        deterministic=FLAGS.deterministic,
        synchronized_batch_norm=FLAGS.sync_batch_norm,
        checkpoint_seconds=FLAGS.checkpoint_seconds or None,
        checkpoint_steps=FLAGS.checkpoint_steps,
        teachers=FLAGS.teachers,
        start=FLAGS.start,
    )
    print(
        training.summary(training.train(recipe, FLAGS.workdir, FLAGS.seed, settings, FLAGS.member))
    )
