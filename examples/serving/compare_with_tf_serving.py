"""Compares the answers of TF Serving with those of the exported model in Python.

    python compare_with_tf_serving.py models/cifar100

Starts TF Serving's Docker image on the folder, sends random images, and prints the largest
difference of each output; the exit code is 1 if one is above the tolerance. With `--url` it asks a
server that is running already. Not run against TF Serving by the project's own tests, which have
no Docker; they run it against `s2d serve`, which has the same protocol.
"""

import argparse
import contextlib
import pathlib
import subprocess
import sys
import time

import numpy as np
import rest_client  # beside this file

from s2d_tf import export

IMAGE = "tensorflow/serving"
PORT = 8501


@contextlib.contextmanager
def tf_serving(folder):
    """The address of TF Serving in a container, while the context is open."""
    command = ["docker", "run", "--detach", "--rm", f"--publish=127.0.0.1:{PORT}:8501"]
    command += [f"--volume={folder}:/models/{folder.name}:ro", f"--env=MODEL_NAME={folder.name}"]
    container = subprocess.check_output([*command, IMAGE], text=True).strip()
    try:
        yield f"http://127.0.0.1:{PORT}"
    finally:
        subprocess.check_output(["docker", "stop", container])


def differences(folder, url, num_images=8, timeout=60.0):
    """The largest absolute difference of each output, for random images."""
    version = export.load(folder)
    ((name, spec),) = version.inputs.items()
    shape = [num_images, *(size or 32 for size in spec.shape[1:])]
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    expected = version.signatures["serving_default"](**{name: images})
    address, deadline = f"{url}/v1/models/{folder.name}:predict", time.monotonic() + timeout
    while True:
        try:
            received = rest_client.post(address, {"inputs": {name: images.tolist()}})["outputs"]
            break
        except OSError:  # not listening yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
    return {key: np.abs(expected[key] - np.array(received[key])).max() for key in sorted(expected)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="where export.save wrote an image model")
    parser.add_argument("--url", help="a running server; default: start TF Serving with Docker")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    server = contextlib.nullcontext(arguments.url) if arguments.url else tf_serving(folder)
    with server as url:
        found = differences(folder, url)
    for key, difference in found.items():
        print(f"{key:24} {difference:.2e}")
    sys.exit(int(max(found.values()) > arguments.tolerance))


if __name__ == "__main__":
    main()
