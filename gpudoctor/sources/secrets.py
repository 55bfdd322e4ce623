"""Takes secrets out of recordings, and with `redact` also names, addresses and serial numbers.

A secret becomes `<removed>`. A name or address becomes a stand-in of the same shape, the same one everywhere, so that the
parsers read it alike and the verdict stays the same.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterable

from gpudoctor.lazy import Lazy

REMOVED = "<removed>"
_SECRET_NAME = (
    r"[\w.-]*(?:passw(?:or)?d|passphrase|secret|tokens?(?![a-z])|api[_-]?key|access[_-]?key|private[_-]?key|credentials?"
    r"|auth(?:orization|entication)?(?![a-z]))[\w.-]*"
)
# name=value, "name": "value", --name value; values in quotes or up to the next space. Keys of Kubernetes objects that only
# name a secret (`secretName: x`) are removed as well: nothing in a diagnosis depends on them.
_ASSIGNED = Lazy(
    rf"""(?P<name>\b{_SECRET_NAME}["']?\s*[=:]\s*|--{_SECRET_NAME}\s+)(?P<value>"[^"\n]*"|'[^'\n]*'|[^\s,;"'&]+)""",
    re.IGNORECASE,
)
_HARMLESS_VALUES = frozenset(
    {"true", "false", "yes", "no", "none", "null", "on", "off", "enabled", "disabled", "0", "1"}
)
_SECRETS = (
    re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),  # JSON web tokens
    re.compile(r"\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"),
    re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"\bhf_[A-Za-z0-9]{20,}|\bsk-[A-Za-z0-9_-]{20,}|\bnvapi-[\w-]{20,}|\bxox[abprs]-[\w-]{10,}"),
    re.compile(r"(?<=Bearer )[\w.~+/=-]{8,}", re.IGNORECASE),
    re.compile(r"(?<=Basic )[A-Za-z0-9+/=]{12,}"),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
)
_IPV4 = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.-]*\.\d|\w)")
_IPV6 = re.compile(
    r"(?<![\w:.])(?:[0-9a-f]{1,4}:){2,7}(?::?[0-9a-f]{1,4}){1,7}(?![\w:.])|(?<![\w:])(?:[0-9a-f]{1,4}:)+(?::[0-9a-f]{1,4})+(?![\w:.])",
    re.IGNORECASE,
)
_MAC = Lazy(r"(?<![\w:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![\w:])", re.IGNORECASE)
_UUID = Lazy(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
_PUBLIC_UUIDS = frozenset({"8be4df61-93ca-11d2-aa0d-00e098032b8c"})  # UEFI's own variables, SecureBoot among them
_GUID = Lazy(r"\b0x[0-9a-f]{16}\b|\b[0-9a-f]{4}:[0-9a-f]{4}:[0-9a-f]{4}:[0-9a-f]{4}\b", re.IGNORECASE)
_SERIAL = Lazy(
    r"((?:Serial Number|Board Serial|<serial>|<board_serial>|\"serial\"|\bserial)\s*[:=>]?\s*\"?)([A-Z0-9]{6,})\b",
    re.IGNORECASE,
)
_HOME = Lazy(r"(?<=/home/)[^/\s:\"']+|(?<=/Users/)[^/\s:\"']+")
_SYSLOG_HOST = Lazy(
    r"^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,]+(?:[+-]\d\d:?\d\d|Z)?) (\S+) (?:kernel:|[\w./-]+(?:\[\d+\])?:)",
    re.MULTILINE,
)
_UNAME_HOST = Lazy(r"^Linux (?!version )(\S+) \d+\.\d+", re.MULTILINE)
_PASSWD_USERS = Lazy(r"\buid=\d+\(([^)]+)\)")
_KEPT_WORDS = frozenset(
    [
        "root",
        "localhost",
        "kernel",
        "nvidia",
        "ubuntu",
        "debian",
        "linux",
        "docker",
        "localhost.localdomain",
        "daemon",
        "user",
        "nobody",
        "admin",
        "(none)",
        "none",
        "gpu",
    ]
)


class Scrubber:
    """Removes secrets; with `redact`, finds names in `texts` (request, text) first and replaces them wherever they occur."""

    def __init__(self, *, redact: bool = False, texts: Iterable[tuple[str, str]] = ()) -> None:
        self._redact = redact
        self._names: dict[str, str] = {}
        if redact:
            for request, text in texts:
                self._find_names(request, text)
        ordered = sorted(self._names, key=len, reverse=True)
        self._known = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, ordered))})(?![\w-])") if ordered else None

    def _find_names(self, request: str, text: str) -> None:
        hosts = [*_SYSLOG_HOST.findall(text), *_UNAME_HOST.findall(text)]
        if request in ("/etc/hostname", "/proc/sys/kernel/hostname", "hostname"):
            hosts += text.split()
        users = [*_HOME.findall(text), *_PASSWD_USERS.findall(text)]
        for found, kind in ((hosts, "host"), (users, "user")):
            for name in found:
                if len(name) > 1 and name.lower() not in _KEPT_WORDS and not _is_number(name):
                    self._names.setdefault(name, f"{kind}-{_digest(name)[:6]}")

    def text(self, text: str) -> str:
        """The text without secrets, and without names and addresses where asked for."""
        for pattern in _SECRETS:
            text = pattern.sub(REMOVED, text)
        text = _ASSIGNED.sub(_without_value, text)
        return self._stand_ins(text) if self._redact else text

    def variable(self, name: str, value: str) -> str:
        """An environment variable's value without secrets."""
        if re.fullmatch(_SECRET_NAME, name, re.IGNORECASE) and value.lower() not in _HARMLESS_VALUES:
            return REMOVED
        return self.text(value)

    def _stand_ins(self, text: str) -> str:
        text = _UUID.sub(lambda m: m[0] if m[0].lower() in _PUBLIC_UUIDS else _same_shape(m[0], keep="-"), text)
        text = _MAC.sub(lambda m: "02:" + _same_shape(m.group()[3:], keep=":"), text)
        text = _GUID.sub(
            lambda m: m.group() if _is_plain(m.group()) else _same_shape(m.group(), keep=":x", start=2), text
        )
        text = _SERIAL.sub(lambda m: m.group(1) + _same_shape(m.group(2)), text)
        text = _IPV4.sub(lambda m: _address(m.group()), text)
        text = _IPV6.sub(lambda m: _address(m.group()), text)
        text = _HOME.sub(lambda m: self._names.get(m.group(), m.group()), text)
        return self._known.sub(lambda m: self._names[m.group()], text) if self._known else text


def _without_value(match: re.Match[str]) -> str:
    value = match["value"]
    bare = value.strip("\"'")
    if bare.lower() in _HARMLESS_VALUES or not bare or bare == REMOVED or bare.startswith(("/", "$", "{", "[", "(")):
        return match.group()
    quote = value[0] if value[0] in "\"'" else ""
    return f"{match['name']}{quote}{REMOVED}{quote}"


def _digest(text: str) -> str:
    return hashlib.sha256(b"gpudoctor" + text.lower().encode("utf-8", "replace")).hexdigest()


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[\d.:]+", text) is not None


def _is_plain(text: str) -> bool:
    """All zeros or ones, or an address in memory: no identity."""
    return len(set(text.replace("0x", "").replace(":", ""))) <= 2 or text.lower().startswith(
        ("0xffff", "0x0000", "0000:")
    )


def _same_shape(text: str, keep: str = "", start: int = 0) -> str:
    """Hexadecimal digits (or decimal ones, where only those occur) drawn from the text's digest; zeros stay zeros."""
    if not text.strip("0-:x"):
        return text
    digits = "".join(str(int(c, 16) % 10) for c in _digest(text)) if re.fullmatch(r"[\d:-]+", text) else _digest(text)
    source = iter(digits * (len(text) // len(digits) + 1))
    upper = text.upper() == text
    body = "".join(c if c in keep else next(source) for c in text[start:])
    return text[:start] + (body.upper() if upper and start == 0 else body)


def _address(text: str) -> str:
    """A private stand-in address; loopback, unspecified, link-local prefixes and netmasks say nothing of anybody."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    if address.is_loopback or address.is_unspecified or address.is_multicast or text.startswith(("255.", "0.")):
        return text
    if _is_version(text):
        return text
    number = int(_digest(text)[:8], 16)
    if address.version == 4:
        return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 254 | 1}"
    return f"fd00::{number >> 16 & 0xFFFF:x}:{number & 0xFFFF:x}"


def _is_version(text: str) -> bool:
    """Four dotted numbers that are a version rather than an address: 8.9.7.29, 12.1.105.1."""
    parts = [int(part) for part in text.split(".")] if text.count(".") == 3 else []
    return (
        bool(parts)
        and (parts[0] < 10 or parts[0] in (11, 12, 13))
        and parts[-1] < 256
        and parts[1] < 20
        and parts[0] != 10
    )
