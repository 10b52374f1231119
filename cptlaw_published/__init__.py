"""For who repeats a paper, or compares with one: laws as published that law auto does not take, and the bench.

The cross-domain D-CPT law (Que et al. 2024, arXiv:2406.01375) among them; the bench runs any law on frozen splits of
public runs. Laws come by name, through entry points, as the verb `bench` does.
"""
