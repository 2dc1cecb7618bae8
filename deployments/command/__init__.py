"""The command line, and the stages in one process without Ray that it, tests and comparisons use."""
