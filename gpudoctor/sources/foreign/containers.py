"""`docker info`, `docker version`, `podman info` and `nvidia-container-cli info`, by the lines only they print."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.lazy import Lazy
from gpudoctor.sources.foreign.answer import Found, any_sign, whole_text
from gpudoctor.sources.requests import DOCKER_INFO, DOCKER_VERSION

KIND = DocumentKind.COMMAND
NVIDIA_CONTAINER_CLI_INFO = ("nvidia-container-cli", "info")

_INFO = Lazy(
    r"^\s*(?:Server Version: \d|Default Runtime: \S|Runtimes: |Cgroup Driver: (?:systemd|cgroupfs)|Docker Root Dir: )",
    re.MULTILINE,
    needs=("Server Version:", "Default Runtime:", "Runtimes:", "Cgroup Driver:", "Docker Root Dir:"),
)
_VERSION = Lazy(
    r"^\s*Client: Docker Engine|^\s*Server: Docker (?:Engine|Desktop)", re.MULTILINE, needs=(": Docker ",)
)
_CLI = Lazy(r"^\s*NVRM version:\s+\d+\.\d+", re.MULTILINE, needs=("NVRM version:",))
_SIGNS = ((DOCKER_INFO, _INFO), (DOCKER_VERSION, _VERSION), (NVIDIA_CONTAINER_CLI_INFO, _CLI))


def recognise(text: str) -> bool:
    """Whether one of them wrote some of this."""
    return any_sign(text, _SIGNS)


def requests(text: str) -> Found:
    """What occurs, each as the whole text. `docker info` begins like `docker version`."""
    found = whole_text(text, _SIGNS)
    if DOCKER_INFO in found:
        found.pop(DOCKER_VERSION, None)
    return found
