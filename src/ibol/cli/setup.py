"""Commands about this installation: doctor and completion."""
