"""Who leaves a tier first: one small module a policy behind one interface."""
