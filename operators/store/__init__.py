"""The rows of a unit: a log-structured merge in memory, its indexes and probes. No Spark in here."""
