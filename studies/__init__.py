"""The laboratory: what measures, reproduces and learns; never installed, and run by name from a copy of the repository.

python -m studies                list the studies
python -m studies NAME [..]      run one
"""
