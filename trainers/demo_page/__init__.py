"""The page behind `s2d demo`."""
