"""The stages in one process, without Ray: for the command line, tests and comparisons."""
