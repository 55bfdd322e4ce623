"""gpudoctor: says why a GPU machine, container or job does not work, and proves it."""

__version__ = "0.1.0"
