"""Gets predictions for image files over REST; needs only Python.

    python rest_client.py photo.jpg other.png --url http://localhost:8501 --model cifar100

Works with TF Serving and `s2d serve`.
"""

import argparse
import base64
import contextlib
import json
import sys
import urllib.error
import urllib.request


def predict(url, model, files, timeout=30.0):
    """Returns one dict of outputs per JPEG or PNG file.

    Encoded files are a tenth of the size of pixels as JSON numbers.
    """
    instances = [{"b64": base64.b64encode(content).decode()} for content in files]
    answer = post(
        f"{url}/v1/models/{model}:predict",
        {"signature_name": "serve_encoded", "instances": instances},
        timeout,
    )
    return answer["predictions"]


def post(address, content, timeout=30.0):
    """Posts JSON and returns the JSON response; raises RuntimeError on a server error."""
    request = urllib.request.Request(
        address, json.dumps(content).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        body = error.read().decode(errors="replace")
        with contextlib.suppress(ValueError, KeyError, TypeError):
            body = json.loads(body)["error"]
        raise RuntimeError(f"{error.code}: {body}") from None


def describe(answer, class_names=None):
    """Formats a prediction as one line."""
    label = answer["label"]
    name = class_names[label] if class_names else f"class {label}"
    return (
        f"{name}, confidence {answer['confidence']:.3f}; uncertainty "
        f"{answer['total_uncertainty']:.3f} nats: {answer['data_uncertainty']:.3f} in the data, "
        f"{answer['knowledge_uncertainty']:.3f} in the model"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", help="JPEG or PNG files")
    parser.add_argument("--url", default="http://localhost:8501")
    parser.add_argument("--model", required=True, help="name of the served model")
    parser.add_argument("--classes", help="classes.txt of the exported model")
    parser.add_argument("--json", action="store_true", help="print the predictions as JSON")
    arguments = parser.parse_args()
    class_names = None
    if arguments.classes:
        with open(arguments.classes, encoding="utf-8") as file:
            class_names = file.read().splitlines()
    contents = []
    for path in arguments.files:
        with open(path, "rb") as file:
            contents.append(file.read())
    try:
        answers = predict(arguments.url, arguments.model, contents)
    except (RuntimeError, OSError) as error:
        sys.exit(f"rest_client: error: {error}")
    for path, answer in zip(arguments.files, answers, strict=True):
        print(json.dumps(answer) if arguments.json else f"{path}: {describe(answer, class_names)}")


if __name__ == "__main__":
    main()
