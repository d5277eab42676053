"""A package, so that ``python -m tests.bench`` finds this folder and not another package's ``tests``."""
