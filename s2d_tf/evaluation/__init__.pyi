from s2d_tf.evaluation import (
    benchmark as benchmark,
    benchmark_page as benchmark_page,
    detector_study as detector_study,
    figures as figures,
    names as names,
    predictions as predictions,
    results as results,
    scoring as scoring,
    shift_study as shift_study,
    statistics as statistics,
    tables as tables,
)
from s2d_tf.evaluation.evaluator import evaluate as evaluate
from s2d_tf.evaluation.exported import ExportedModel as ExportedModel
from s2d_tf.evaluation.head_tuning import Tuning as Tuning, tune_head as tune_head
from s2d_tf.evaluation.model_report import (
    compare as compare,
    write_model_report as write_model_report,
)
from s2d_tf.evaluation.predictions import Predictions as Predictions, predict as predict
from s2d_tf.evaluation.report import Section as Section, write_report as write_report
from s2d_tf.evaluation.result_tables import overview_table as overview_table
from s2d_tf.evaluation.results import Result as Result, collect as collect
from s2d_tf.evaluation.run_evaluation import (
    compare_runs as compare_runs,
    evaluate_entry as evaluate_entry,
    evaluate_run as evaluate_run,
)
from s2d_tf.evaluation.scoring import scores as scores
from s2d_tf.evaluation.shift import Shift as Shift, evaluate_shift as evaluate_shift
from s2d_tf.evaluation.shift_resampling import shift_intervals as shift_intervals
