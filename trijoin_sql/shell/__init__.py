"""``trijoin-sql shell``: statements one by one, results as they come."""
