"""What a run measured: records, metrics, counters and statistics. Pure."""
