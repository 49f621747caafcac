"""Which operations take the time of a compiled function."""

import collections
import pathlib
import re
import tempfile

# The tracer names the run of an operation "name:Type", as in "model/conv1/Conv2D:Conv2D".
# oneDNN's have a prefix: "_MklNativeConv2D".
_OPERATION = re.compile(r"[^:]*:(?:_MklNative|_Mkl|_)?([A-Z][A-Za-z0-9_]*)$")


def operations(function, top=8):
    """`{type of operation: share of the time of all operations}` of one call, the largest first."""
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        try:
            function()
        finally:
            tf.profiler.experimental.stop()
        traces = [path.read_bytes() for path in pathlib.Path(folder).rglob("*.xplane.pb")]
    spent = collections.Counter()
    for trace in traces:
        for name, picoseconds in _events(trace):
            found = _OPERATION.match(name)
            if found:
                spent[found.group(1)] += picoseconds
    total = sum(spent.values()) or 1
    return {name: value / total for name, value in spent.most_common(top)}


def _events(trace):
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    space.ParseFromString(trace)
    for plane in space.planes:
        if plane.name.startswith("/host:CPU"):
            for line in plane.lines:
                for event in line.events:
                    yield plane.event_metadata[event.metadata_id].name, event.duration_ps
