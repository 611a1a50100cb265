"""Serving engines: metric names, units and controls, one file an engine."""
