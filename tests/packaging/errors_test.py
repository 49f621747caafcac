"""Errors have one form: `<argument or file>: expected <what>, received <what>. <What to do.>`"""

import ast
import re

FORM = re.compile(r".+?: expected .+, received .+\. ?\S.*[.?}]", re.DOTALL)
# A reason, which the error that is raised from it completes; and Python's own words for names.
REASON = re.compile(r"(\{\}: )?expected .+, received [^.]*")
OTHERS = {"module {} has no attribute {}"}
# After a list of what can be chosen there is nothing more to say.
CHOICE = re.compile(r".+?: expected one of .+, received .+\.", re.DOTALL)
# Another error's message, and what else can be done.
PASSED_ON = re.compile(r"\{\}(;| To) .+")
FORMS = (FORM, CHOICE, REASON, PASSED_ON)


def message(node: ast.expr) -> str | None:
    """The text of a string or f-string, with `{}` for its values."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def raised(tree: ast.AST):
    """Yields the line and the message of each `raise` of an error with a message of our own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            # An errno may come before the message, an HTTP status after it.
            texts = [text for text in map(message, node.exc.args) if text is not None]
            name = ast.unparse(node.exc.func)
            if texts and (name.endswith("Error") or name == "error"):
                yield node.lineno, texts[-1]


def test_errors_have_one_form(project_root):
    wrong, count = [], 0
    for path in sorted(p for d in ("s2d_tf", "trainers") for p in (project_root / d).rglob("*.py")):
        for line, text in raised(ast.parse(path.read_text(encoding="utf-8"))):
            count += 1
            if text not in OTHERS and not any(form.fullmatch(text) for form in FORMS):
                wrong.append(f"{path}:{line}: {text}")
    assert count > 100
    assert not wrong, "\n".join(wrong)
