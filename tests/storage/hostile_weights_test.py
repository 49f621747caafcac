"""Weights files that mean harm, and thousands of damaged ones: refused, or harmless.

The model has two small layers, so that most bytes of its file are structure and not numbers.
"""

import io
import os
import random
import resource
import sys
import zipfile

import h5py
import keras
import numpy as np
import pytest

from s2d_tf.storage import weights

CRAFTED = {}
LITTLE = 2**12
"""Kilobytes beyond what a good file takes; the bombs among the crafted ones declare far more."""


def crafted(function):
    """A function that writes a hostile file over a good one; returns what the error must say."""
    CRAFTED[function.__name__] = function
    return function


@pytest.fixture(scope="module")
def model():
    network = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(4, name="a"), keras.layers.Dense(3, name="b")]
    )
    rng = np.random.default_rng(0)
    for weight in network.weights:
        weight.assign(rng.normal(size=weight.shape))
    return network


@pytest.fixture(scope="module")
def good(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "a.weights.h5"
    weights.save(model, path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def checker():
    with weights.Checker() as running:
        yield running


# The checker's own program; each child says by how many kilobytes reading the file raised its peak,
# and the number goes to a file, since the child itself may open none.
MEASURED = """
import importlib.util, pathlib, resource, sys
spec = importlib.util.spec_from_file_location("check", sys.argv[1])
check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check)
answer, in_child, report = check.answer, check._in_child, pathlib.Path(sys.argv[2])

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

def measured(request, data):
    before = peak()
    result = answer(request, data)
    return {**result, "growth": peak() - before}

def reported(request, data):
    result = in_child(request, data)
    report.write_text(str(result.pop("growth", "the child died")))
    return result

check.answer, check._in_child = measured, reported
check.main()
"""


class MeasuredChecker(weights.Checker):
    """A checker that knows how much memory the last child took, in kilobytes."""

    def __init__(self, report, program=MEASURED):
        super().__init__(
            [sys.executable, "-c", program, weights.weights_check.__file__, str(report)]
        )
        self.report = report

    def growth(self):
        return int(self.report.read_text())


@pytest.fixture(scope="module")
def measured(model, good, tmp_path_factory):
    """A measured checker, and what a child takes for a good file."""
    with MeasuredChecker(tmp_path_factory.mktemp("growth") / "kilobytes") as running:
        weights.parse(good, model, "x", checker=running)
        yield running, running.growth()


def replace(path, name, **how):
    """Puts another array in the place of one."""
    with h5py.File(path, "r+") as file:
        values = np.asarray(file[name])
        del file[name]
        how = {"data": values, **how}
        if how["data"] is None:
            del how["data"]
        file.create_dataset(name, **how)


def read(path, model, checker):
    data = weights.read_bytes(path, weights.size_limit(model))
    return weights.parse(data, model, path, checker=checker)


@crafted
def empty(path):
    path.write_bytes(b"")
    return "not a readable HDF5 file"


@crafted
def text(path):
    path.write_text("weights\n" * 100)
    return "not a readable HDF5 file"


@crafted
def pickled(path):
    path.write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    return "not a readable HDF5 file"


@crafted
def archive(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("../../weights", b"x")
    return "not a readable HDF5 file"


@crafted
def only_the_signature(path):
    path.write_bytes(path.read_bytes()[:8])
    return "not a readable HDF5 file"


@crafted
def half_of_it(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return "not a readable HDF5 file"


@crafted
def last_byte_missing(path):
    path.write_bytes(path.read_bytes()[:-1])
    return "not a readable HDF5 file"


@crafted
def user_block(path):
    path.write_bytes(bytes(512) + path.read_bytes())
    return "user block|readable"


@crafted
def sparse_terabyte(path):
    os.truncate(path, 10**12)
    return "is larger than this model's weights can be"


@crafted
def many_links(path):
    with h5py.File(path, "r+") as file:
        for i in range(2000):
            file[f"link{i}"] = h5py.SoftLink("/a")
    return "is larger than|which the model does not have"


@crafted
def named_pipe(path):
    path.unlink()
    os.mkfifo(path)
    return "is not a file"


@crafted
def missing_array(path):
    with h5py.File(path, "r+") as file:
        del file["b/bias"]
    return "it lacks b/bias"


@crafted
def extra_array(path):
    with h5py.File(path, "r+") as file:
        file["b/more"] = np.zeros(3, np.float32)
    return "'b/more', which the model does not have"


@crafted
def escaping_name(path):
    with h5py.File(path, "r+") as file:
        h5py.h5g.create(file.id, b"..")
    return "'..', which the model does not have"


@crafted
def unreadable_name(path):
    with h5py.File(path, "r+") as file:
        h5py.h5g.create(file.id, b"\xff\xfe\n")
    return "which the model does not have|not a readable"


@crafted
def shape_bomb(path):
    replace(path, "a/kernel", data=None, shape=(2**40,), dtype="<f4", chunks=(2**20,))
    return "expected the shape"


@crafted
def shape_bomb_of_many_sides(path):
    replace(path, "a/kernel", data=None, shape=(2**15,) * 4, dtype="<f4")
    return "expected the shape"


@crafted
def transposed(path):
    replace(path, "a/kernel", data=np.zeros((4, 5), np.float32))
    return "expected the shape"


@crafted
def growing(path):
    replace(path, "a/kernel", maxshape=(None, 4), chunks=(5, 4))
    return "compressed or in pieces"


@crafted
def no_space(path):
    replace(path, "a/bias", data=h5py.Empty("<f4"))
    return "expected the shape"


@crafted
def no_bytes(path):
    replace(path, "a/kernel", data=None, shape=(5, 4), dtype="<f4")
    return "no bytes of its own"


@crafted
def double_precision(path):
    replace(path, "a/kernel", dtype="<f8")
    return "expected numbers of type"


@crafted
def whole_numbers(path):
    replace(path, "a/kernel", dtype="<i4")
    return "expected numbers of type"


@crafted
def other_byte_order(path):
    replace(path, "a/kernel", dtype=">f4")
    return "expected numbers of type"


@crafted
def strange_floats(path):
    with h5py.File(path, "r+") as file:
        del file["a/bias"]
        kind = h5py.h5t.IEEE_F32LE.copy()
        kind.set_ebias(100)
        space = h5py.h5s.create_simple((4,))
        h5py.h5d.create(file["a"].id, b"bias", kind, space)
    return "type made for the file|expected numbers|no bytes|not a readable"


@crafted
def texts(path):
    replace(path, "a/kernel", data=np.full((5, 4), b"abcd"))
    return "expected numbers of type"


@crafted
def texts_of_any_length(path):
    kind = h5py.string_dtype()
    replace(path, "a/kernel", data=np.full((5, 4), "abcd", object), dtype=kind)
    return "expected numbers of type"


@crafted
def compound(path):
    replace(path, "a/kernel", data=np.zeros((5, 4), [("x", "<f4")]))
    return "expected numbers of type"


@crafted
def truth_values(path):
    replace(path, "a/kernel", data=np.zeros((5, 4), bool))
    return "expected numbers of type"


@crafted
def references(path):
    replace(path, "a/kernel", data=None, shape=(5, 4), dtype=h5py.ref_dtype)
    return "expected numbers of type"


@crafted
def compressed(path):
    replace(path, "a/kernel", compression="gzip")
    return "compressed or in pieces"


@crafted
def compressed_bomb(path):
    bomb = np.zeros((2**22,), np.float32)
    replace(path, "a/kernel", data=bomb, compression="gzip", compression_opts=9)
    return "expected the shape|is larger than"


@crafted
def checksum_filter(path):
    replace(path, "a/kernel", fletcher32=True, shuffle=True)
    return "compressed or in pieces"


@crafted
def inside_the_header(path):
    with h5py.File(path, "r+") as file:
        del file["a/bias"]
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((4,))
        h5py.h5d.create(file["a"].id, b"bias", h5py.h5t.IEEE_F32LE, space, plan)
    return "compressed or in pieces"


@crafted
def virtual(path):
    layout = h5py.VirtualLayout((5, 4), "<f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (5, 4))
    with h5py.File(path, "r+") as file:
        del file["a/kernel"]
        file.create_virtual_dataset("a/kernel", layout)
    return "virtual"


@crafted
def external_bytes(path):
    how = {"shape": (5, 4), "dtype": "<f4", "external": [("/etc/passwd", 0, 80)]}
    replace(path, "a/kernel", data=None, **how)
    return "lies in another file"


@crafted
def soft_link(path):
    with h5py.File(path, "r+") as file:
        file["b/more"] = file["a/kernel"]
        del file["a/kernel"]
        file["a/kernel"] = h5py.SoftLink("/b/more")
    return "is a link to another place|which the model does not have"


@crafted
def dangling_link(path):
    with h5py.File(path, "r+") as file:
        del file["a/kernel"]
        file["a/kernel"] = h5py.SoftLink("/nowhere")
    return "is a link to another place"


@crafted
def external_link(path):
    with h5py.File(path.with_name("other.h5"), "w") as file:
        file["kernel"] = np.zeros((5, 4), np.float32)
    with h5py.File(path, "r+") as file:
        del file["a/kernel"]
        file["a/kernel"] = h5py.ExternalLink(str(path.with_name("other.h5")), "kernel")
    return "is a link to another place"


@crafted
def linked_group(path):
    with h5py.File(path, "r+") as file:
        file.move("a", "c")
        file["a"] = h5py.SoftLink("/c")
    return "is a link to another place|which the model does not have"


@crafted
def one_array_under_two_names(path):
    with h5py.File(path, "r+") as file:
        for name in ("a/bias", "b/bias"):
            del file[name]
        file["a/bias"] = np.zeros(4, np.float32)
        file["b/bias"] = np.zeros(3, np.float32)
        del file["a/kernel"]
        file["a/kernel"] = np.zeros((5, 4), np.float32)
        del file["b/kernel"]
        file["b/kernel"] = file["a/kernel"]
    return "expected the shape"


@crafted
def circle(path):
    with h5py.File(path, "r+") as file:
        del file["a"]
        file["a"] = file["/"]
    return "a has attributes"


@crafted
def group_for_an_array(path):
    with h5py.File(path, "r+") as file:
        del file["a/kernel"]
        file.create_group("a/kernel/deep/deeper")
    return "is not an array"


@crafted
def array_for_a_group(path):
    with h5py.File(path, "r+") as file:
        del file["a"]
        file["a"] = np.zeros(3, np.float32)
    return "is not a group"


@crafted
def type_for_an_array(path):
    with h5py.File(path, "r+") as file:
        del file["a/kernel"]
        file["a/kernel"] = np.dtype("<f4")
    return "is not an array"


@crafted
def attribute_of_an_array(path):
    with h5py.File(path, "r+") as file:
        file["a/kernel"].attrs["note"] = "x"
    return "a/kernel has attributes"


@crafted
def huge_attribute(path):
    with h5py.File(path, "r+") as file:
        file.attrs["sha256"] = np.zeros(2**12, np.float64)
    return "is not a text of fixed length"


@crafted
def long_text_attribute(path):
    with h5py.File(path, "r+") as file:
        file.attrs["format"] = np.bytes_(b"x" * 5000)
    return "has 5000 bytes"


@crafted
def attribute_in_the_heap(path):
    with h5py.File(path, "r+") as file:
        file.attrs["sha256"] = "a" * 64
    return "is not a text of fixed length"


@crafted
def more_attributes(path):
    with h5py.File(path, "r+") as file:
        file.attrs["keras_version"] = np.bytes_("3")
    return "expected the attributes format and sha256"


@crafted
def another_format(path):
    with h5py.File(path, "r+") as file:
        file.attrs["format"] = np.bytes_("s2d_tf weights 9")
    return "expected the format 's2d_tf weights 1'"


@crafted
def other_numbers(path):
    with h5py.File(path, "r+") as file:
        file["a/kernel"][0, 0] += 1
    return "do not match its digest"


@crafted
def not_a_number(path):
    with h5py.File(path, "r+") as file:
        file["a/bias"][0] = np.nan
        arrays = {n: np.asarray(file[n]) for n in ("a/kernel", "a/bias", "b/kernel", "b/bias")}
        file.attrs["sha256"] = np.bytes_(weights._digest(arrays))
    return "a/bias is not finite"


def test_there_are_thirty_of_them():
    assert len(CRAFTED) >= 30


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_file_is_refused_and_nothing_changes(name, model, good, measured, tmp_path):
    checker, usual = measured
    checker.report.write_text("0")  # of what is refused before a child parses it
    path = tmp_path / "a.weights.h5"
    path.write_bytes(good)
    message = CRAFTED[name](path)
    before = [weight.numpy().copy() for weight in model.weights]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(weights.WeightsError, match=message) as caught:
        read(path, model, checker)
    assert "\n" not in str(caught.value)
    # Neither who reads the bytes nor who parses them takes what is declared.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < LITTLE
    assert checker.growth() - usual < LITTLE
    for expected, weight in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(weight.numpy(), expected)


def test_what_a_child_takes_is_seen(model, good, measured, tmp_path):
    wasteful = MEASURED.replace("peak() - before", "len(b'x' * 2**24) and peak() - before")
    with MeasuredChecker(tmp_path / "kilobytes", wasteful) as checker:
        weights.parse(good, model, "x", checker=checker)
        assert checker.growth() - measured[1] > LITTLE


def test_one_array_cannot_serve_as_two(model, good, checker):
    """Two names for the same bytes, where the shapes would allow it."""
    network = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(4, name="a"), keras.layers.Dense(4, name="b")]
    )
    file = io.BytesIO()
    with h5py.File(file, "w") as made:
        made.attrs["format"], made.attrs["sha256"] = map(
            np.bytes_, (weights.weights_check.FORMAT, "0" * 64)
        )
        for layer in "ab":
            made[f"{layer}/bias"] = np.zeros(4, np.float32)
        made["a/kernel"] = np.zeros((4, 4), np.float32)
        made["b/kernel"] = made["a/kernel"]
    with pytest.raises(weights.WeightsError, match="shares its bytes"):
        weights.parse(file.getvalue(), network, "x", checker=checker)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("os.abort()", "SIGABRT"),
        ("bytearray(10**10)", "over a limit"),
        ("open('/etc/passwd')", "over a limit"),
    ],
)
def test_whatever_happens_in_a_child_the_next_file_is_answered(harm, message, model, good):
    """Harm that no crafted file achieved, done by hand."""
    program = (
        "import importlib.util, os, signal, sys\n"
        f"path = {weights.weights_check.__file__!r}\n"
        "spec = importlib.util.spec_from_file_location('check', path)\n"
        "check = importlib.util.module_from_spec(spec); spec.loader.exec_module(check)\n"
        "honest, calls = check._in_child, []\n"
        "def once(request, data):\n"
        "    calls.append(1)\n"
        f"    check.answer = (lambda *_: {harm}) if len(calls) == 1 else answer\n"
        "    return honest(request, data)\n"
        "answer, check._in_child = check.answer, once\n"
        "check.main()\n"
    )
    with weights.Checker([sys.executable, "-c", program]) as checker:
        with pytest.raises(weights.WeightsError, match=message):
            weights.parse(good, model, "x", checker=checker)
        assert weights.parse(good, model, "x", checker=checker)


def check_mutations(model, good, checker, mutate, count, seed):
    """Every copy is refused by name or gives the very arrays; returns how many were refused."""
    expected = {name: weight.numpy() for name, weight in weights.by_name(model).items()}
    rng, reasons = random.Random(seed), []
    for i in range(count):
        data = mutate(good, rng)
        try:
            arrays = weights.parse(data, model, f"copy {i}", checker=checker)
        except weights.WeightsError as error:
            reasons.append(str(error))
            continue
        assert arrays.keys() == expected.keys(), i
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, expected[name], err_msg=f"copy {i}")
    assert checker.process.poll() is None
    assert not [reason for reason in reasons if len(reason) > 600 or "\n" in reason]
    return len(reasons)


def test_damaged_copies_are_refused_or_harmless(model, good, checker, mutate):
    refused = check_mutations(model, good, checker, mutate, count=300, seed=1)
    assert 100 < refused <= 300


@pytest.mark.slow
def test_ten_thousand_damaged_copies_are_refused_or_harmless(model, good, checker, mutate):
    refused = check_mutations(model, good, checker, mutate, count=10_000, seed=2)
    assert 3000 < refused <= 10_000
