"""What trained policies are worth."""
