"""Measures alternatives in one run, as ratios, and writes the report.

    python -m benchmarks [SUITE...] [--out=FILE.json] [--quick]
    python -m benchmarks all --report=benchmarks

Suites: step, predict, fit, backbones, fast, startup; none or "all" runs all of them. Alternatives
take turns. Results are medians over the rounds with quartiles, stored with the machine and its
load. --report=DIR stores the results in DIR/results.json and writes DIR/README.md from that file;
without a suite it only writes the page.
"""

import sys

from absl import app, flags

import benchmarks

FLAGS = flags.FLAGS
flags.DEFINE_string("out", None, "JSON file for the results; replaces suites already in it.")
flags.DEFINE_boolean("quick", False, "Tiny sizes, to check that it runs; the numbers mean nothing.")
flags.DEFINE_string("report", None, "Folder of results.json and of the page generated from it.")
flags.DEFINE_integer("repetitions", 9, "Maximum rounds of each comparison.", lower_bound=1)
flags.DEFINE_float("seconds", 40.0, "Start no further round of a comparison after this time.")
flags.DEFINE_list("runs", [], "Finished run directories; suite `fast` reports their minutes.")
flags.DEFINE_string(
    "exported", None, "Folder of SavedModels of another version, for suite `predict`."
)


def main(argv):
    try:
        run(argv)
    except (ValueError, OSError) as error:
        sys.exit(f"benchmarks: {error}")


def run(argv):
    names = [] if argv[1:] == ["all"] else argv[1:]
    suites = benchmarks.find(names)
    if FLAGS.report and len(argv) == 1:
        print(f"wrote {benchmarks.write_report(FLAGS.report)}")
        return
    out = FLAGS.out or (f"{FLAGS.report}/results.json" if FLAGS.report else None)
    repetitions = 1 if FLAGS.quick else FLAGS.repetitions
    plan = benchmarks.Plan(
        FLAGS.quick, repetitions, FLAGS.seconds, FLAGS.exported, tuple(FLAGS.runs)
    )
    found = benchmarks.run(suites, plan, benchmarks.show_progress, out)
    print(benchmarks.text_table(found))
    if FLAGS.report:
        print(f"wrote {benchmarks.write_report(FLAGS.report)}")


if __name__ == "__main__":
    app.run(main)
