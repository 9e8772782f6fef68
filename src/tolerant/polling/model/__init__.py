"""What is learned about one item from its pulls: its chain of changes, predictors, correlations."""
