"""Executes the notebooks: `python docs/site/notebooks.py [NAME...]`; needs the extra `notebooks`.

Their sources are text, examples/notebooks/NAME.py. NAME.ipynb beside it has the same cells with
their outputs, for readers on GitHub and for the site, which is built without TensorFlow.
"""

import pathlib
import sys
import tempfile

import jupytext
import nbclient
import nbformat

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "notebooks"


def execute(path):
    """The notebook of a source, with what its cells print and draw."""
    notebook = jupytext.read(path)
    with tempfile.TemporaryDirectory() as folder:
        client = nbclient.NotebookClient(
            notebook,
            timeout=3600,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    return tidy(notebook)


def tidy(notebook):
    """Drops what differs from run to run: logs, addresses of objects, names of cells."""
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
    for number, cell in enumerate(notebook.cells):
        cell["id"], cell["metadata"] = f"cell-{number}", {}
        if cell.cell_type == "code":
            cell["outputs"] = [out for out in cell.outputs if _is_for_readers(out)]
    return notebook


def _is_for_readers(output):
    shown = output.get("data", {})
    text = output.get("text", "") or shown.get("text/plain", "")
    logged = output.get("name") == "stderr" or text.startswith("INFO:")
    return not logged and ("image/png" in shown or not text.startswith("<"))


def main(names):
    for path in sorted(FOLDER.glob("*.py")):
        if not names or path.stem in names:
            nbformat.write(execute(path), path.with_suffix(".ipynb"))
            print(path.with_suffix(".ipynb"), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
