"""The command line: one file a command, nothing but flags, messages and exit codes."""
