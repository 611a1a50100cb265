"""The report of a run: one document, and renderers that read nothing else."""
