"""Whose column is it: name resolution by Spark's rules."""
