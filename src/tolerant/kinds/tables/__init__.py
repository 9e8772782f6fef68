"""The pipeline of one table: range queries and notices side by side."""
