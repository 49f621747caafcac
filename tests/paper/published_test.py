"""The paper's tables: spot values read by eye, counts, and internal consistency."""

import collections

import pytest

from s2d_tf.paper import published


def test_all_tables_have_their_shapes():
    shapes = {t.number: (len(t.rows), len(t.columns)) for t in published.tables()}
    detection, sizes, wide = (13, 8), (6, 8), (7, 8)
    assert shapes == {
        1: (13, 8),
        2: detection,
        3: detection,
        4: (4, 3),
        **dict.fromkeys((5, 6, 7), detection),
        8: (6, 3),
        **dict.fromkeys(range(9, 14), sizes),
        14: (7, 6),
        **dict.fromkeys(range(15, 20), wide),
    }
    assert all(len(row.cells) == len(t.columns) for t in published.tables() for row in t.rows)
    assert len(published.numbers()) == 1147


@pytest.mark.parametrize(
    ("number", "row", "column", "value", "spread", "best", "best_overall"),
    [
        (1, "Individual", "C100 Acc", 74.6, 0.5, False, False),
        (1, "S2D Individual", "C100+ %ECE", 4.35, 1.23, True, False),
        (1, "Deep ensemble", "C100+ Acc", 82.1, None, True, False),
        (1, "S2D Deep ensemble", "C100+ Acc", 82.1, None, True, False),
        (1, "H2D-Gauss", "C100+ %ECE", 2.41, None, True, False),
        (1, "H2D-Gauss", "Computational Cost Inference", 2.4, None, False, False),
        (2, "Individual", "OOD %AUROC Conf.", 77.3, 0.9, False, False),
        (2, "H2D-Dir", "OOD %AUROC KU", 86.4, None, True, True),
        (2, "H2D-Gauss", "OOD %AUPR DU", 85.8, None, True, True),
        (3, "MC ensemble", "OOD %AUROC KU", 68.3, 3.0, False, False),
        (3, "Deep ensemble", "OOD %AUPR KU", 91.5, None, True, False),
        (3, "H2D-Gauss", "OOD %AUPR KU", 81.7, None, False, False),
        (4, "SVHN", "Test", 26032, None, False, False),
        (5, "SWAG-Diag", "OOD %AUPR KU", 73.4, 14.2, False, False),
        (6, "S2D Deep Ensemble", "OOD %AUROC TU", 84.2, None, True, True),
        (7, "EnD", "OOD %AUPR TU", 75.0, None, False, False),
        (8, "MC 5", "Acc.", 75.6, 0.9, False, False),
        (8, "Deep 20", "%ECE", 2.19, None, False, False),
        (10, "MC 20", "OOD %AUPR KU", 51.7, 3.0, False, False),
        (13, "Deep 20", "OOD %AUPR KU", 85.4, None, False, False),
        (14, "S2D Individual", "C100 %ECE", 5.48, 2.25, False, False),
        (16, "S2D Individual", "OOD %AUPR KU", 71.4, 5.5, True, False),
        (19, "Individual", "OOD %AUROC Conf.", 71.2, 3.8, False, False),
        (19, "H2D-Gauss", "OOD %AUPR KU", 73.5, None, False, False),
    ],
)
def test_values_read_by_eye(number, row, column, value, spread, best, best_overall):
    cell = published.value(number, row, column)
    assert (cell.value, cell.spread) == (value, spread)
    assert (cell.best, cell.best_overall) == (best, best_overall)
    assert cell.source == f"Table {number}, {row}, {column}"


def test_blanks_stay_blank():
    blanks = collections.Counter(c.table for t in published.tables() for c in t.cells() if c.blank)
    assert blanks == {1: 6, 2: 8, 3: 8, 4: 3, 5: 8, 6: 8, 7: 8} | dict.fromkeys(range(15, 20), 4)
    assert published.value(1, "MC ensemble", "C100+ Acc").text == "-"
    individual = published.value(2, "Individual", "OOD %AUROC DU")
    assert individual.text == ""
    assert individual.value is individual.metric_value is individual.metric_spread is None
    # A single categorical prediction does not decompose: no row of either has DU or KU.
    for cell in (c for t in published.tables() if t.kind == "detection" for c in t.cells()):
        decomposed = cell.metric.endswith(("/data", "/knowledge"))
        assert cell.blank == (decomposed and cell.method in ("individual", "end"))


def test_costs_are_shared_by_the_rows_they_are_printed_for():
    expected = {
        "individual": (0.80, 2.3, False),
        "s2d": (0.80, 2.3, True),
        "s2d_mimo": (0.83, 2.3, True),
        "swag": (1.60, 11.6, False),
        "s2d_swag": (1.60, 11.6, True),
        "s2d_ensemble": (4.00, 11.5, True),
        "end": (0.80, 2.3, False),
        "h2d_dir": (0.80, 2.3, True),
        "h2d_gauss": (0.83, 2.4, False),
    }
    for method, (parameters, milliseconds, merged) in expected.items():
        cell = published.value(1, method, "cost/parameters")
        assert (cell.value, cell.unit, cell.merged) == (parameters, "million", merged)
        assert cell.metric_value == pytest.approx(1e6 * parameters)
        assert cell.method == method
        assert published.value(1, method, "cost/inference_ms").value == milliseconds
    assert published.value(1, "swag", "cost/inference_ms").text == "11.6ms*"


def test_units_and_keys():
    cell = published.value(3, "s2d", "svhn_cropped/auroc/knowledge")
    assert cell.value == 81.2
    assert cell.metric_value == pytest.approx(0.812, abs=1e-15)
    assert cell.metric_spread == pytest.approx(0.038, abs=1e-15)
    assert (cell.row, cell.column, cell.unit) == ("S2D Individual", "OOD %AUROC KU", "percent")
    nll = published.value(1, "s2d", "C100 NLL")
    assert (nll.metric, nll.unit, nll.metric_value) == ("cifar100/nll", "nats", 0.87)
    units = {(c.metric or "").split("/")[1]: c.unit for c in published.numbers() if c.metric}
    assert units == {
        "accuracy": "percent",
        "nll": "nats",
        "ece": "percent",
        "parameters": "million",
        "inference_ms": "milliseconds",
        "auroc": "percent",
        "aupr": "percent",
    }
    for cell in published.numbers():
        if cell.unit == "percent":
            assert 0 < cell.metric_value < 1


def test_lookup_of_our_results():
    densenet, wide = "densenet_bc_100_12", "wrn_28_10"
    assert published.lookup(densenet, "s2d", "cifar100_plus", "cifar100/nll").value == 0.81
    assert published.lookup(wide, "s2d", "cifar100_plus", "cifar100/nll").value == 0.74
    size = published.lookup(densenet, "ensemble", "cifar100", "svhn_cropped/aupr/data", members=20)
    assert (size.value, size.source) == (92.9, "Table 11, Deep 20, OOD %AUPR DU")
    usual = published.lookup(densenet, "ensemble", "cifar100", "svhn_cropped/aupr/data", members=5)
    assert usual.source == "Table 3, Deep ensemble, OOD %AUPR DU"
    assert published.lookup(densenet, "s2d", "cifar100_plus", "cost/parameters").value == 0.80
    assert published.lookup(wide, "end", "cifar100", "cifar100/nll") is None
    assert published.lookup(densenet, "mc", "cifar100_plus", "cifar100/nll") is None
    assert published.lookup(densenet, "individual", "cifar100", "svhn_cropped/auroc/data") is None


def test_results_have_the_form_of_ours():
    results = published.results("densenet_bc_100_12")
    assert len(results) == 17  # 13 methods, and MC and deep ensembles of 10 and 20.
    assert results["ensemble_20"][0]["cifar100/accuracy"] == pytest.approx(0.803)
    assert results["s2d"][0]["tiny_imagenet_crop/aupr/knowledge"] == pytest.approx(0.831)
    plus = published.results("wrn_28_10", "cifar100_plus")
    assert plus["s2d_mc"][0] == {
        "cifar100/accuracy": pytest.approx(0.81),
        "cifar100/nll": 0.73,
        "cifar100/ece": pytest.approx(0.0199),
    }
    assert "cifar100/accuracy" not in published.results("wrn_28_10", tables_used=[17])["s2d"][0]


def test_numbers_printed_twice_agree():
    """The sizes repeat the ensembles of five; one spread differs between the paper's two prints."""
    seen, differing = {}, []
    for cell in published.numbers():
        key = (
            cell.architecture,
            cell.trained_on,
            cell.metric,
            published.variant(cell.method, cell.members),
        )
        if cell.metric and key in seen:
            assert cell.value == seen[key].value
            if cell.spread != seen[key].spread:
                differing.append((seen[key].source, cell.source))
        seen.setdefault(key, cell)
    column = "OOD %AUPR TU"
    assert differing == [(f"Table 7, MC ensemble, {column}", f"Table 13, MC 5, {column}")]


def test_marks_are_the_best_of_their_column():
    marked = [t for t in published.tables() if t.kind == "detection" and "Best" in t.caption]
    assert [t.number for t in marked] == [2, 3, 5, 6, 7, 15, 16, 17, 18, 19]
    for table in marked:
        for index in range(len(table.columns)):
            cells = [row.cells[index] for row in table.rows if not row.cells[index].blank]
            best = max(cell.value for cell in cells)
            assert [cell.value for cell in cells if cell.best] == [best]
        for ranking in ("/auroc/", "/aupr/"):
            cells = [c for c in table.cells() if ranking in c.metric and not c.blank]
            overall = max(cell.value for cell in cells)
            assert [cell.value for cell in cells if cell.best_overall] == [overall]


def test_unknown_names_list_the_known():
    with pytest.raises(ValueError, match="no table 20; its tables are numbered 1 to 19"):
        published.table(20)
    with pytest.raises(
        ValueError, match=r"unknown row of table 3: 's2d_mim'.*Did you mean 's2d_mimo'"
    ):
        published.value(3, "s2d_mim", "OOD %AUROC KU")
    # Two columns of table 1 hold this metric: one must say which.
    with pytest.raises(ValueError, match=r"unknown column of table 1: 'cifar100/nll'.*C100 NLL"):
        published.value(1, "s2d", "cifar100/nll")
