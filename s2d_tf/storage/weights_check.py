"""Where the arrays of a weights file lie, found without trusting the file.

libhdf5 only walks the structure; no array is read through it, so neither a declared shape nor a
filter can make it allocate or execute anything. As a program this file answers requests on its
standard input, each in a process of its own with limits on memory, time and files, because a
damaged file can crash libhdf5 itself. It imports neither TensorFlow nor the rest of the package.
"""

import io
import json
import os
import signal
import sys

import h5py
import numpy as np

FORMAT = "s2d_tf weights 1"
MARGIN_BYTES = 64 * 2**20
SECONDS = 20
ANSWER_BYTES = 2**24


class WeightsError(ValueError):
    """A weights file is missing, damaged, or not that of the model."""


def layout(data, expected):
    """Checks the structure of a weights file that is held in memory.

    Args:
        data: the bytes of the file.
        expected: `{name: (shape, dtypes)}` of all arrays, dtypes as NumPy writes them ("<f4").

    Returns:
        `(digest, {name: (dtype, offset)})`: the digest that the file states, and where in `data`
        each array begins.
    """
    try:
        with h5py.File(io.BytesIO(data), "r") as file:
            if file.userblock_size:
                raise WeightsError("it begins with a user block")
            digest = _digest(file)
            groups = {name[:i] for name in expected for i, c in enumerate(name) if c == "/"}
            found = {}
            _walk(file, "", expected, groups, found)
    except WeightsError:
        raise
    # h5py passes on whatever libhdf5 says, under many types.
    except Exception as error:
        raise WeightsError(f"it is not a readable HDF5 file ({_first_line(error)})") from None
    missing = [name for name in expected if name not in found]
    if missing:
        raise WeightsError(f"it lacks {_some(missing)}")
    check_places(found, expected, len(data))
    return digest, found


def check_places(found, expected, size):
    """Refuses arrays that lie outside the file or over one another."""
    end = 0
    for name in sorted(found, key=lambda name: found[name][1]):
        dtype, offset = found[name]
        if offset < end:
            raise WeightsError(f"{name} shares its bytes with something else")
        end = offset + np.dtype(dtype).itemsize * int(np.prod(expected[name][0]))
    if end > size:
        raise WeightsError(f"{name} ends at byte {end}, the file at {size}")


def _digest(file):
    names = sorted(file.attrs.keys())
    if names != ["format", "sha256"]:
        raise WeightsError(f"expected the attributes format and sha256, received {_some(names)}")
    values = [_short_text(file, name) for name in names]
    if values[0] != FORMAT:
        raise WeightsError(f"expected the format {FORMAT!r}, received {values[0]!r}")
    return values[1]


def _short_text(file, name):
    attribute = h5py.h5a.open(file.id, name.encode())
    kind = attribute.get_type()
    if kind.get_class() != h5py.h5t.STRING or kind.is_variable_str() or attribute.shape != ():
        raise WeightsError(f"the attribute {name} is not a text of fixed length")
    if not 0 < kind.get_size() <= 64:
        raise WeightsError(f"the attribute {name} has {kind.get_size()} bytes, expected at most 64")
    value = np.zeros((), dtype=f"S{kind.get_size()}")
    attribute.read(value)
    return value.item().decode("ascii")


def _walk(group, prefix, expected, groups, found):
    """Notes the arrays below a group; whatever is not expected there is refused."""
    for key in group:
        name = prefix + key
        if name not in groups and name not in expected:
            raise WeightsError(f"it holds {name[:80]!r}, which the model does not have")
        if type(group.get(key, getlink=True)) is not h5py.HardLink:
            raise WeightsError(f"{name} is a link to another place")
        held = group[key]
        if h5py.h5a.get_num_attrs(held.id):
            raise WeightsError(f"{name} has attributes")
        if name in groups:
            if not isinstance(held, h5py.Group):
                raise WeightsError(f"{name} is not a group")
            _walk(held, f"{name}/", expected, groups, found)
        elif isinstance(held, h5py.Dataset):
            found[name] = _place(held, name, *expected[name])
        else:
            raise WeightsError(f"{name} is not an array")


def _place(dataset, name, shape, dtypes):
    kind, plan = dataset.id.get_type(), dataset.id.get_create_plist()
    numbers = kind.get_class() in (h5py.h5t.FLOAT, h5py.h5t.INTEGER)
    if not numbers or dataset.dtype.str not in dtypes:
        raise WeightsError(f"{name}: expected numbers of type {' or '.join(dtypes)}")
    if not kind.equal(h5py.h5t.py_create(dataset.dtype)):
        raise WeightsError(f"{name}: expected plain numbers, received a type made for the file")
    if dataset.id.get_space().get_simple_extent_type() != (
        h5py.h5s.SIMPLE if shape else h5py.h5s.SCALAR
    ) or dataset.shape != tuple(shape):
        raise WeightsError(f"{name}: expected the shape {list(shape)}, received {dataset.shape}")
    if plan.get_layout() != h5py.h5d.CONTIGUOUS or plan.get_nfilters():
        raise WeightsError(f"{name} is virtual, compressed or in pieces; expected plain bytes")
    if plan.get_external_count():
        raise WeightsError(f"{name} lies in another file")
    offset, size = dataset.id.get_offset(), dataset.id.get_storage_size()
    if offset is None or size != dataset.dtype.itemsize * int(np.prod(shape)):
        raise WeightsError(f"{name} has no bytes of its own in the file")
    return dataset.dtype.str, int(offset)


def _first_line(error):
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:200]}" if text else type(error).__name__


def _some(names):
    names = [str(name)[:80] for name in names]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def answer(request, data):
    """What the program says about one file, as JSON values."""
    try:
        digest, found = layout(data, request["expected"])
    except WeightsError as error:
        return {"error": str(error)}
    return {"digest": digest, "found": found}


def _limit_this_process(size):
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        held = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limits = {
        resource.RLIMIT_AS: held + size + MARGIN_BYTES,
        resource.RLIMIT_CPU: SECONDS,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        # Nothing else can be opened: whatever a file refers to stays closed.
        resource.RLIMIT_NOFILE: 0,
    }
    for limit, value in limits.items():
        resource.setrlimit(limit, (value, value))
    signal.alarm(2 * SECONDS)


def _in_child(request, data):
    """The answer about one file, from a process that may crash."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            if os.path.exists("/proc/self/statm"):
                _limit_this_process(len(data))
            text = json.dumps(answer(request, data)).encode()
            while text:
                text = text[os.write(writer, text) :]
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read(ANSWER_BYTES)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return {"error": f"reading it crashed libhdf5 or went over a limit ({name})"}
    try:
        return json.loads(text)
    except ValueError:
        return {"error": "reading it went over a limit"}


def main():
    """Answers requests: a line of JSON (`size`, `expected`), then the bytes of the file."""
    requests = sys.stdin.buffer
    while line := requests.readline():
        request = json.loads(line)
        data = requests.read(request["size"])
        print(json.dumps(_in_child(request, data)), flush=True)


if __name__ == "__main__":
    main()
