"""The network edge: what is sent, when, and what came back."""
