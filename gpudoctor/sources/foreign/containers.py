"""`docker info`, `docker version`, `podman info` and `nvidia-container-cli info`, by the lines only they print."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.sources.foreign.answer import Found, command
from gpudoctor.sources.requests import DOCKER_INFO, DOCKER_VERSION

KIND = DocumentKind.COMMAND
NVIDIA_CONTAINER_CLI_INFO = ("nvidia-container-cli", "info")

_INFO = re.compile(
    r"^\s*(?:Server Version: \d|Default Runtime: \S|Runtimes: |Cgroup Driver: (?:systemd|cgroupfs)|Docker Root Dir: )",
    re.MULTILINE,
)
_VERSION = re.compile(r"^\s*Client: Docker Engine|^\s*Server: Docker (?:Engine|Desktop)", re.MULTILINE)
_CLI = re.compile(r"^\s*NVRM version:\s+\d+\.\d+", re.MULTILINE)


def recognise(text: str) -> bool:
    """Whether one of them wrote some of this."""
    head = text[:65536]
    return any(pattern.search(head) for pattern in (_INFO, _VERSION, _CLI))


def requests(text: str) -> Found:
    """What occurs."""
    found: Found = {}
    if _INFO.search(text):
        found |= command(DOCKER_INFO, text)
    elif _VERSION.search(text):
        found |= command(DOCKER_VERSION, text)
    if _CLI.search(text):
        found |= command(NVIDIA_CONTAINER_CLI_INFO, text)
    return found
