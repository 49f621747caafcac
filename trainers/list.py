"""Lists the zoo's entries.

usage: s2d list [WORD...] [--[no]pretrained]

    s2d list                     # every architecture, method and dataset
    s2d list s2d cifar100        # entries whose name contains all of these
    s2d list --pretrained        # only entries with weights
"""

from absl import flags

from s2d_tf import zoo

_PRETRAINED = flags.DEFINE_boolean(
    "pretrained", None, "Only entries with weights (--nopretrained: only those without)."
)


def main(argv: list[str]) -> None:
    names = [
        name
        for name in zoo.names(pretrained=_PRETRAINED.value)
        if all(part in name for part in argv[1:])
    ]
    if not names:
        raise ValueError(
            f"TEXT: expected parts of an entry's name, received {' '.join(argv[1:])!r}, which no "
            "entry with these flags has. Run `s2d list` for all."
        )
    print(zoo.listing(names))
