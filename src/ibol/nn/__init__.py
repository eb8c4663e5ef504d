"""Networks and distributions."""
