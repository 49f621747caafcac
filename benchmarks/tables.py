"""Results as text."""


def text_row(row):
    """One line for a row (a dict as in the JSON)."""
    result = f"{number(row['median'], row['unit']):>12}" if row["median"] is not None else "not run"
    quartiles = f"[{number(row['low'])}, {number(row['high'])}]" if row["low"] is not None else ""
    verdict = f"{goal(row)} {verdict_on(row)}".strip()
    text = f"  {row['name']:<58}{result:>12} {quartiles:<20} {verdict}".rstrip()
    if row["kind"] in ("not run", "predicted"):
        text += f"  ({row['note'] if row['kind'] == 'not run' else 'predicted, not run'})"
    return text


def show_progress(item):
    """Prints a line when a suite begins and one for every finished row, as they come."""
    print(item if isinstance(item, str) else text_row(vars(item)), flush=True)


def text_table(found):
    """All suites of a results dict."""
    lines = []
    for name, record in found["suites"].items():
        here = record["machine"]
        lines += ["", f"{name}: {record['question']}", f"  {machine_line(here)}"]
        lines += [text_row(row) for row in record["rows"]]
    return "\n".join(lines[1:])


def machine_line(here):
    """The machine in one line."""
    versions = here["versions"]
    return (
        f"{here['cpu']}, {here['cores']} cores, TensorFlow {versions['tensorflow']}, Keras "
        f"{versions['keras']}, oneDNN {here['onednn']}, load {here['load']}"
    )


def goal(row):
    """The goal of a row, as text."""
    if row["goal"] is None:
        return ""
    return f"{'<=' if row['goal']['at_most'] else '>='} {row['goal']['limit']:g}"


def verdict_on(row, missed="MISSED"):
    """Whether the goal is met, and whether the spread leaves that uncertain."""
    if row["met"] is None:
        return ""
    if gave_up(row):
        return "not judged: the other failed"
    text = "met" if row["met"] else missed
    uncertain = row["low"] is not None and row["low"] < row["goal"]["limit"] < row["high"]
    return f"{text}, but the goal is between the quartiles" if uncertain else text


def gave_up(row):
    """Whether a competitor ended with an error, so that its time is not that of an answer."""
    return any(
        name.startswith("error of ") and isinstance(value, str)
        for name, value in row["facts"].items()
    )


def number(value, unit=""):
    """Four digits (after the point, very near to 1), and the unit; ratios have none."""
    if value is None:
        return ""
    if value != 1 and abs(value - 1) < 0.01:
        text = f"{value:.4f}"  # A cost of next to nothing should not look like none.
    elif value and not 1e-3 <= abs(value) < 1e6:
        text = f"{value:.3g}"
    elif abs(value) >= 1000:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.4g}"
    return text + (f" {unit}" if unit not in ("", "x") else "")
