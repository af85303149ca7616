"""Side-by-side timings of tracegrad and its peers: ``python -m benchmarks --help``."""
