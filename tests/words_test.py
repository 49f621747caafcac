"""Text that users read uses the project's vocabulary and American spelling.

Scanned are the pages, the model cards, and every string in the code: docstrings, help, errors.
"""

import ast
import re

import pytest

PAGES = ("*.md", "docs/*.md", "benchmarks/*.md", "results/**/*.md", "zoo/**/*.md")
CODE = (
    "s2d_tf/**/*.html",
    "s2d_tf/**/*.py",
    "trainers/*.py",
    "benchmarks/*.py",
    "examples/**/*.py",
)

# What not to write, as a regular expression, and what to write instead.
WORDS = {
    r"doubt\w*": "uncertainty, uncertain",
    r"(?<![</])figures?": "metrics, results, numbers (a figure is a picture)",
    r"ma(ke|kes|de|king) again": "reproduce, regenerate, rerun",
    r"(is|are) there|at hand": "available, exists, complete",
    r"tell(s|ing)? (\w+ ){1,3}from": "out-of-distribution detection, distinguish",
    r"what (it|they) costs? over": "error, overhead, cost",
    r"where the recipe's": "override",
    r"answerers?|who is asked": "model, predictor",
    r"refus\w+|in words of ours": "reject (input), abstain (prediction)",
    r"ask(s|ed|ing)?": "predict, evaluate, request",
    r"by heart": "memorized, fitted",
    r"lies? in": "is in, is stored in",
    r"mend(s|ed|ing)?": "fix",
    r"data sets?": "dataset",
    r"behaviours?|colours?|grey|centre[sd]?|licences?|labelled": "behavior, color, gray, ...",
    r"neighbour\w*|favour\w*|towards|distils?|per cent": "neighbor, toward, distill, percent, ...",
    r"(normal|optim|maxim|minim|initial|summar)is(e|es|ed|er|ers|ing|ation)": "normalize, ...",
}

# A figure is a picture in these files.
PICTURES = {
    "docs/evaluation.md",
    "s2d_tf/evaluation/__init__.py",
    "s2d_tf/evaluation/drawing.py",
    "s2d_tf/evaluation/figures.py",
    "s2d_tf/evaluation/model_report.py",
    "s2d_tf/evaluation/report.py",
    "s2d_tf/evaluation/report_pictures.py",
    "s2d_tf/evaluation/shift_report.py",
    "s2d_tf/evaluation/shift_study.py",
}
EXCEPTIONS = {
    *((name, "figure") for name in PICTURES),
    ("s2d_tf/storage/entries.py", "normalisation"),  # A key of published entries.
}


def texts(path):
    """Yields each text of a file with the line where it begins."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield 1, content
        return
    inside = set()
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.JoinedStr):
            inside |= set(node.values)
            parts = (p.value if isinstance(p, ast.Constant) else "..." for p in node.values)
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            yield node.lineno, node.value


def found(text):
    """Yields the position of each word of the list in a text, the word, and what to write."""
    for word, instead in WORDS.items():
        for match in re.finditer(rf"\b({word})\b".replace(" ", r"\s+"), text, re.IGNORECASE):
            yield match.start(), match[0].lower(), instead


def test_no_text_uses_a_word_of_the_list(project_root):
    wrong, used = [], set()
    for path in sorted(path for pattern in (*PAGES, *CODE) for path in project_root.glob(pattern)):
        name = path.relative_to(project_root).as_posix()
        for first, text in texts(path):
            for start, word, instead in found(text):
                key = (name, re.sub(r"s$", "", word))
                if key in EXCEPTIONS:
                    used.add(key)
                else:
                    line = first + text.count("\n", 0, start)
                    wrong.append(f"{name}:{line}: {word!r}; write: {instead}")
    assert not wrong, "\n".join(wrong)
    assert used == EXCEPTIONS, f"not needed any more: {EXCEPTIONS - used}"


@pytest.mark.parametrize(
    "text",
    [
        "The network doubts it.",
        "with the published figures",
        "to make\n    again",
        "LSUN is not at hand",
        "telling other images from known ones",
        "Epochs, where the recipe's are too many.",
        "It is refused in one line.",
        "Ask a model",
        "the folder that it lies in",
        "a data\nset",
        "normalised by colour",
    ],
)
def test_the_list_finds(text):
    assert list(found(text))


def test_other_words_pass():
    text = "Mask the task in color: configure the dataset; if there is one, it relies on it."
    assert not list(found(text))
