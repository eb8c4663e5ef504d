"""Skills and linearizers as files for programs that have neither JAX nor this package."""
