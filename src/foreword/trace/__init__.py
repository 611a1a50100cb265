"""Traces: rows of reads and writes of block keys, and one pure parser a format. Nothing here opens a file."""
