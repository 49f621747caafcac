"""Lists the zoo's entries.

usage: s2d list [WORD...] [--all]

    s2d list                     # pretrained entries: how good they are, and what they cost
    s2d list s2d cifar100        # those whose name contains all of these
    s2d list --all               # also recipes without weights: every architecture, method, dataset
"""

from absl import flags

from s2d_tf import zoo

_ALL = flags.DEFINE_boolean(
    "all", False, "Also recipes without weights, to train with `s2d train`."
)


def main(argv: list[str]) -> None:
    named = [name for name in zoo.names() if all(part in name for part in argv[1:])]
    if not named:
        raise ValueError(
            f"WORD: expected parts of an entry's name, received {' '.join(argv[1:])!r}, which no "
            "entry has. Run `s2d list --all` for all."
        )
    pretrained = set(zoo.names(pretrained=True))
    shown = named if _ALL.value else [name for name in named if name in pretrained]
    # Whoever names a recipe that has no weights wants to see it all the same.
    print(zoo.listing(shown or named))
    if shown and len(shown) < len(named):
        print(f"{len(named) - len(shown)} more without weights: `s2d list --all`.")
