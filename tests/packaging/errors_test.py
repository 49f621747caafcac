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


def message(node: ast.expr) -> str | None:
    """The text of a string or f-string, with `{name}` for its values."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = node.values
        return "".join(
            part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
            for part in parts
        )
    return None


def raised(tree: ast.AST):
    """Yields the line and the message of each `raise` of an error with a message of our own.

    `SomeError.unless` and `require` raise one, too; here if its message is one text.
    """
    for node in ast.walk(tree):
        name = ast.unparse(node.func).split(".")[-1] if isinstance(node, ast.Call) else ""
        if name in ("unless", "require") and len(node.args) == 2 and message(node.args[1]):
            yield node.lineno, message(node.args[1])
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            name = ast.unparse(node.exc.func).split(".")[-1]
            # An errno may come before the message, an HTTP status after it.
            texts = [text for text in map(message, node.exc.args) if text is not None]
            if texts and (name.endswith("Error") or ast.unparse(node.exc.func) == "error"):
                yield node.lineno, texts[-1]


def is_well_formed(text: str) -> bool:
    bare = re.sub(r"\{[^}]*\}", "{}", text)
    return bare in OTHERS or any(form.fullmatch(bare) for form in (FORM, CHOICE, REASON, PASSED_ON))


def test_errors_have_one_form(project_root):
    wrong, count = [], 0
    for path in sorted(p for d in ("s2d_tf", "trainers") for p in (project_root / d).rglob("*.py")):
        place = path.relative_to(project_root).as_posix()
        for line, text in raised(ast.parse(path.read_text(encoding="utf-8"))):
            count += 1
            if not is_well_formed(text):
                wrong.append(f"{place}:{line}: {text}")
    assert count > 100
    assert not wrong, "\n".join(wrong)
