"""Traffic model, load driver and benchmarks."""
