"""A run beside an earlier one."""


def compare(found, baseline):
    """Changes of all results that both runs have.

    A change counts as one only where the quartiles of the two runs do not overlap.

    Args:
        found, baseline: what `runner.run` returned or `results.read` read.

    Returns:
        List of dicts: `suite`, `name`, `then`, `now`, `change` (now / then), and `verdict`: "same",
        "higher", "lower", or with a goal "better" or "worse".
    """
    changes = []
    for suite, record in found["suites"].items():
        earlier = {row["name"]: row for row in baseline["suites"].get(suite, {}).get("rows", ())}
        for row in record["rows"]:
            then = earlier.get(row["name"])
            if then is None or row["median"] is None or not then["median"]:
                continue
            changes.append(
                {
                    "suite": suite,
                    "name": row["name"],
                    "then": then["median"],
                    "now": row["median"],
                    "change": row["median"] / then["median"],
                    "verdict": _verdict(row, then),
                }
            )
    return changes


def _verdict(now, then):
    (now_low, now_high), (then_low, then_high) = _range(now), _range(then)
    if now_low <= then_high and then_low <= now_high:
        return "same"
    rose = now["median"] > then["median"]
    if now["goal"] is None:
        return "higher" if rose else "lower"
    return "worse" if rose == now["goal"]["at_most"] else "better"


def _range(row):
    if row["low"] is None:
        return row["median"], row["median"]
    return row["low"], row["high"]
