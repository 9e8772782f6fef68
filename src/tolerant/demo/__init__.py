"""`tolerant demo`: all of it at once, on generated traffic; and the sums that show what it was worth."""
