"""Laws as papers published them that law auto does not take: for who repeats a paper, or compares with one.

The cross-domain D-CPT law (Que et al. 2024, arXiv:2406.01375) among them. Laws come by name, through entry points.
"""
