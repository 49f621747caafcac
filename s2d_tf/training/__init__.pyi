from s2d_tf.training import (
    preemption as preemption,
    schedules as schedules,
    strategies as strategies,
    tuning as tuning,
)
from s2d_tf.training.loop import Settings as Settings, train as train
from s2d_tf.training.multi_worker import WorkerLostError as WorkerLostError
from s2d_tf.training.preemption import Preempted as Preempted
