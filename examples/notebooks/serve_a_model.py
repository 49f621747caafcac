# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Serving a model
#
# From a trained model to an HTTP service that answers with uncertainties, and to the numbers that
# one watches once it runs. Needs `pip install 's2d_tf[serve]'`.

# %%
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import numpy as np

from s2d_tf import data, export, posthoc, zoo

model = zoo.load("wrn_10_2_s2.s2d.digits")
images, labels = data.load_arrays("digits", "test")

# %% [markdown]
# ## Decide when it should not answer
#
# The service should decline when more than 1% of its answers would be wrong. The step is fitted
# here and exported with the model, so the server needs no Python code of ours to apply it.

# %%
safe = posthoc.SelectiveClassifier(max_risk=0.01).fit(model, (images[:900], labels[:900]))

# %% [markdown]
# ## Export
#
# A SavedModel in a numbered folder, as TF Serving expects it. It draws nothing at random, contains
# no Python, and gives the same answers on every machine.

# %%
folder = pathlib.Path(tempfile.mkdtemp()) / "digits"
path = export.save(safe, folder)
print(*sorted(p.relative_to(folder).as_posix() for p in path.rglob("*") if p.is_file()), sep="\n")

# %% [markdown]
# ## Serve
#
# `s2d serve` speaks TF Serving's REST protocol; a TF Serving container could take its place. In a
# shell this is one line: `s2d serve digits`.

# %%
port = 8517
command = [sys.executable, "-m", "s2d_tf", "serve", str(folder), f"--port={port}"]
server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
address = f"http://127.0.0.1:{port}"


def get(place, content=None):
    request = urllib.request.Request(address + place, content and json.dumps(content).encode())
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read().decode()


status = None
while status is None and server.poll() is None:  # TensorFlow takes some seconds to start
    try:
        status = get("/v1/models/digits")
    except OSError:
        time.sleep(0.5)
print(status)

# %% [markdown]
# ## Ask
#
# Pixels go in as JSON; the answer has the class, its probability, the three uncertainties and
# whether to abstain.

# %%
picture = images[920]
reply = json.loads(get("/v1/models/digits:predict", {"instances": [picture.tolist()]}))
answer = reply["predictions"][0]
for name, value in answer.items():
    print(f"{name:22}", value if name == "abstain" else np.round(value, 4))

# %% [markdown]
# The server's numbers are those of Python:

# %%
here = safe.predict_uncertainty(picture[None])
np.testing.assert_allclose(answer["knowledge_uncertainty"], here["knowledge"][0], atol=1e-5)
print("equal")

# %% [markdown]
# A picture that is no digit, and a request that makes no sense:

# %%
photograph = data.load_arrays("digits_photos", "test")[0][0]
reply = json.loads(get("/v1/models/digits:predict", {"instances": [photograph.tolist()]}))
print("abstain:", reply["predictions"][0]["abstain"])

try:
    get("/v1/models/digits:predict", {"instances": [[[1, 2], [3, 4]]]})
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())

# %% [markdown]
# ## Watch
#
# `/metrics` is in Prometheus' format. Besides counts and times it has the distribution of each
# uncertainty: when knowledge uncertainty drifts up, the inputs have changed, and nobody needs
# labels to see it.

# %%
for line in get("/metrics").splitlines():
    if "knowledge" in line and not line.startswith("#"):
        print(line)

# %%
server.terminate()
server.wait(timeout=30)
