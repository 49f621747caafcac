"""Builds the site: `python docs/site/build.py` writes .site/html; any warning is an error.

The pages keep their places in the checkout, so their links hold on the site and in the repository:
what the navigation names is copied to .site/pages, with all that it links to. Written here are the
reference of each package, the executed notebooks, and the table of pretrained models, which
`build.py zoo` also writes into docs/zoo.md. Nothing of s2d_tf is imported.
"""

import ast
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = ROOT / ".site"
CONFIG = pathlib.Path(__file__).with_name("zensical.toml")
ASSETS = tuple(f"docs/site/{name}" for name in ("iframe-worker.js", "style.css", "tables.js"))

# Text in which brackets and parentheses are no links.
_CODE = re.compile(r"^(```+).*?^\1|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^]]+\]: (\S+)|<img[^>]* src=\"([^\"]+)\"", re.MULTILINE)

_ZOO_TABLE = re.compile(r"(?<=<!-- zoo table -->\n\n).*(?=\n<!-- end of zoo table -->)", re.DOTALL)
_ZOO_COLUMNS = """| model | accuracy | NLL | ECE | parameters | time |
| --- | ---: | ---: | ---: | ---: | ---: |
"""


def pages_of(navigation: list) -> Iterator[str]:
    """Yields the pages that a navigation names."""
    for item in navigation:
        for target in item.values():
            yield from [target] if isinstance(target, str) else pages_of(target)


def links(text: str) -> Iterator[str]:
    """Yields the targets of a page's links to files, without anchors."""
    for found in _LINK.findall(_CODE.sub("", text)):
        target = next(filter(None, found)).split("#")[0]
        if target and "://" not in target and not target.startswith(("mailto:", "data:")):
            yield target


def public_names(package: str) -> dict[str, str]:
    """`{name: full name of what it is}` of a package's or module's public names, sorted.

    Read from the stub if the package has one, else from the imports and the dictionaries of
    names that load on first use.
    """
    home = ROOT / "s2d_tf" / package
    if not home.is_dir():
        tree = ast.parse(home.with_suffix(".py").read_bytes())
        kinds = (ast.FunctionDef, ast.ClassDef)
        names = {n.name: f"s2d_tf.{package}.{n.name}" for n in tree.body if isinstance(n, kinds)}
        return {name: full for name, full in sorted(names.items()) if not name.startswith("_")}
    stub = home / "__init__.pyi"
    tree = ast.parse((stub if stub.exists() else home / "__init__.py").read_bytes())
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("s2d_tf."):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Dict):
            for name, module in ast.literal_eval(node).items():
                names[name] = f"s2d_tf.{package}.{module}.{name}"
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_MODULES":
            for name in ast.literal_eval(node.value):
                names[name] = f"s2d_tf.{package}.{name}"
    return {name: names[name] for name in sorted(names)}


def packages() -> list[str]:
    """The packages and modules that people import: neither helpers nor the server's parts."""
    folders = {path.parent.name for path in (ROOT / "s2d_tf").glob("*/__init__.py")}
    return sorted((folders | {"optimizers", "uncertainty"}) - {"files", "serving"})


def summary(package: str) -> str:
    """The first line of a package's docstring."""
    home = ROOT / "s2d_tf" / package
    home = home / "__init__.py" if home.is_dir() else home.with_suffix(".py")
    return (ast.get_docstring(ast.parse(home.read_bytes())) or "").split("\n")[0]


def reference(package: str) -> str:
    """The page of a package, as mkdocstrings reads it."""
    head = f"# s2d_tf.{package}\n\n::: s2d_tf.{package}\n    options:\n"
    head += (
        "      members: false\n      show_root_heading: false\n      show_root_toc_entry: false\n"
    )
    return head + "".join(f"\n::: {full}\n" for full in public_names(package).values())


def zoo_table() -> str:
    """The table of pretrained models in docs/zoo.md, from their records."""
    rows = []
    for path in sorted((ROOT / "zoo" / "pretrained").glob("*/entry.json")):
        entry = json.loads(path.read_bytes())
        metrics, source = entry["metrics"], entry["recipe"]["source_dataset"]
        cells = (
            f"[{entry['name']}](../zoo/pretrained/{entry['name']}/README.md)",
            f"{metrics[f'{source}/accuracy']:.1%}",
            f"{metrics[f'{source}/nll']:.3f}",
            f"{metrics[f'{source}/ece']:.1%}",
            f"{entry['parameters']:,}",
            f"{metrics['cost/relative_inference_time']:.1f}x",
        )
        rows.append(f"| {' | '.join(cells)} |\n")
    return _ZOO_COLUMNS + "".join(rows)


def notebook(path: pathlib.Path) -> str:
    """The page of an executed notebook: its texts, its code, and what that printed and drew."""
    parts = []
    for cell in json.loads(path.read_bytes())["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            content = output.get("data", {})
            if picture := content.get("image/png"):
                address = f"data:image/png;base64,{''.join(picture).replace(chr(10), '')}"
                parts.append(f'<img alt="The plot of the code above" src="{address}">')
            elif text := "".join(output.get("text") or content.get("text/plain", "")).strip():
                parts.append(f"```text\n{text}\n```")
    return "\n\n".join(parts) + "\n"


def written() -> dict[str, str]:
    """The pages that are written here, by path: those of the site alone, and the zoo's."""
    names, page = packages(), ROOT / "docs" / "zoo.md"
    notebooks = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
    table = [f"| [`s2d_tf.{name}`]({name}.md) | {summary(name)} |" for name in names]
    overview = (
        "# API reference\n\nMade from the docstrings.\n\n| package | contents |\n| --- | --- |\n"
    )
    return {
        "api/README.md": overview + "\n".join(table) + "\n",
        **{f"api/{name}.md": reference(name) for name in names},
        **{f"{path.relative_to(ROOT).with_suffix('.md')}": notebook(path) for path in notebooks},
        "docs/zoo.md": _ZOO_TABLE.sub(lambda _: zoo_table(), page.read_text(encoding="utf-8")),
    }


def stage(target: pathlib.Path, navigation: list, texts: dict[str, str]) -> None:
    """Copies the pages of a navigation and all that they link to, or writes them if given."""
    waiting, done = [*pages_of(navigation), *ASSETS], set()
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        done.add(name)
        out = target / name
        out.parent.mkdir(parents=True, exist_ok=True)
        if name not in texts and not name.endswith(".md"):
            shutil.copyfile(ROOT / name, out)
            continue
        text = texts.get(name) or (ROOT / name).read_text(encoding="utf-8")
        for link in links(text):
            found = os.path.normpath(pathlib.PurePosixPath(name).parent / link)
            # A folder of the repository is a page here, and so is a notebook.
            if (ROOT / found).is_dir():
                text = text.replace(f"]({link})", f"]({link.rstrip('/')}/README.md)")
                found += "/README.md"
            elif found.endswith(".ipynb"):
                text = text.replace(f"]({link})", f"]({link.removesuffix('.ipynb')}.md)")
                found = found.removesuffix(".ipynb") + ".md"
            if found not in texts and not (ROOT / found).is_file():
                sys.exit(f"{name}: expected links to files that exist, received {link!r}. Fix it.")
            waiting.append(found)
        out.write_text(text, encoding="utf-8")


def main() -> int:
    if sys.argv[1:] == ["zoo"]:
        (ROOT / "docs" / "zoo.md").write_text(written()["docs/zoo.md"], encoding="utf-8")
        return 0
    shutil.rmtree(SITE, ignore_errors=True)
    SITE.mkdir()
    shutil.copyfile(CONFIG, SITE / CONFIG.name)
    config = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    stage(SITE / "pages", config["project"]["nav"], written())
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=SITE, stderr=subprocess.PIPE, text=True, check=False)
    print(done.stderr, end="", file=sys.stderr)
    # Warnings about docstrings come from Griffe, of which Zensical knows nothing.
    return done.returncode or int("griffe: " in done.stderr)


if __name__ == "__main__":
    sys.exit(main())
