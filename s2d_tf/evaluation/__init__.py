"""Model and data sets to a flat dict of numbers, to the tables and figures of the paper."""
