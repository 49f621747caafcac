from . import preemption as preemption
from . import schedules as schedules
from . import strategies as strategies
from . import tuning as tuning
from .loop import Settings as Settings
from .loop import train as train
from .multi_worker import WorkerLostError as WorkerLostError
from .preemption import Preempted as Preempted
