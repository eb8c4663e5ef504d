"""One HTML page with all about runs."""
