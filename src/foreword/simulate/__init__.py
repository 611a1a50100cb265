"""Predictions: from a plan, or from written prompts, to the hits of every request."""
