"""Kernels: Arrow and NumPy in, Arrow and NumPy out. No Spark here."""

from __future__ import annotations
