"""Datasets that only studies need: corrupted images, OpenOOD's lists, CLINC150."""
