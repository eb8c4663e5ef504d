"""Methods: one file each, all with the same skeleton: settings, networks, losses, update, trainer, METHOD."""
