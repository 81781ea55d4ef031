"""The papers' experiments as recipes: data, methods and judging together."""
