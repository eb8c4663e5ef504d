"""Films of what runs have learned, rendered without a display."""
