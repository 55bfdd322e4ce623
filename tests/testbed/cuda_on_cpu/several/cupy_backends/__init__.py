# What is not here is found in ../site, or is the genuine one.
from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
