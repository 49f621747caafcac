"""Predicting with a fitted step needs neither SciPy nor scikit-learn."""

import ast


def test_heavy_packages_are_imported_in_fits_only(project_root):
    """`metrics` imports scikit-learn."""
    heavy = {"scipy", "sklearn", "s2d_tf.metrics", "safetensors"}
    for path in (project_root / "s2d_tf" / "posthoc").glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            assert not [n for n in names if n.split(".")[0] in heavy or n in heavy], path.name
