"""Pictures of benchmark results."""


def draw_growth(record, path):
    """Time over size for every row of `scale` that has one; returns the path, or None."""
    rows = [row for row in (record or {"rows": ()})["rows"] if "growth" in row["name"]]
    if not rows:
        return None
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(rows), figsize=(3.2 * len(rows), 3.0), squeeze=False)
    for axis, row in zip(axes[0], rows, strict=True):
        sizes = [int(size) for size in row["seconds"]]
        times = [1000.0 * value for value in row["seconds"].values()]
        axis.loglog(sizes, times, "o-")
        axis.set_xlabel(row["name"].rpartition(" with ")[2])
        axis.set_title(f"slope {row['median']:.2f}", fontsize=10)
        axis.set_xticks(sizes, [str(size) for size in sizes], fontsize=7)
        # Powers of ten are often outside: the ends of the curve say what its times are.
        axis.set_yticks([times[0], times[-1]], [f"{time:.3g}" for time in (times[0], times[-1])])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("milliseconds")
    figure.tight_layout()
    # No date or version in the file: the same results give the same picture.
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
    return path
