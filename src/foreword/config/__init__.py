"""What a person writes: frozen models that accept known keys only. No file is opened here."""
