"""The benchmarks, one file each, and code that several of them share."""
