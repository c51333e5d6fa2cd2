"""The benchmark on the CPU: its peers, its protocol, its result."""
