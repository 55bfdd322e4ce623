"""Makes a genuine systemd journal file from log lines, with kernel facility and several boots, without a journald."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import real_parts

BOOT_NOW = "4d0b0e5cbbd64bba8a5a2ba7ab3b1f00"
BOOT_BEFORE = "9c3a7ce51f6f4d6bb0f1d4b5f9f66c11"
MACHINE = "6bb1a3c9d8e94f15a4f3a1b2c3d4e5f6"


@dataclass(frozen=True)
class Entry:
    """One line: `second` is since the epoch, `monotonic` since that boot; priority 3 is an error, 6 is information."""

    message: str
    second: float
    monotonic: float
    boot: str = BOOT_NOW
    priority: int = 6
    transport: str = "kernel"
    identifier: str = "kernel"
    hostname: str = "gpu-node"


def kernel_lines(messages: Sequence[str], start: float, boot: str = BOOT_NOW, priority: int = 3) -> list[Entry]:
    """Kernel messages one second apart, from `start` seconds since the epoch, which is ten seconds after boot."""
    return [Entry(text, start + i, 10.0 + i, boot, priority) for i, text in enumerate(messages)]


def export_text(entries: Sequence[Entry]) -> bytes:
    """The journal export format: fields one a line, text with line breaks as length and bytes, a blank line after each."""
    return b"".join(_export(number, entry) for number, entry in enumerate(entries, start=1))


def _export(number: int, entry: Entry) -> bytes:
    stamp, monotonic = int(entry.second * 1_000_000), int(entry.monotonic * 1_000_000)
    fields = {
        "__CURSOR": f"s=0123456789abcdef0123456789abcdef;i={number:x};b={entry.boot};m={monotonic:x};t={stamp:x};x={number:x}",
        "__REALTIME_TIMESTAMP": str(stamp),
        "__MONOTONIC_TIMESTAMP": str(monotonic),
        "_BOOT_ID": entry.boot,
        "_MACHINE_ID": MACHINE,
        "_HOSTNAME": entry.hostname,
        "_TRANSPORT": entry.transport,
        "PRIORITY": str(entry.priority),
        "SYSLOG_FACILITY": "0" if entry.transport == "kernel" else "3",
        "SYSLOG_IDENTIFIER": entry.identifier,
        "_SOURCE_MONOTONIC_TIMESTAMP": str(monotonic),
    }
    lines = [f"{name}={value}\n".encode() for name, value in fields.items()]
    message = entry.message.encode()
    if b"\n" in message:
        lines.append(b"MESSAGE\n" + len(message).to_bytes(8, "little") + message + b"\n")
    else:
        lines.append(b"MESSAGE=" + message + b"\n")
    return b"".join(lines) + b"\n"


def write(path: Path, entries: Sequence[Entry]) -> Path:
    """Writes a .journal file that `journalctl --file` reads. Raises CalledProcessError when the converter refuses it."""
    converter = real_parts.require("systemd-journal-remote")
    export = path.with_suffix(".export")
    export.write_bytes(export_text(entries))
    subprocess.run([converter, "-o", str(path), str(export)], check=True, capture_output=True, timeout=30)
    export.unlink()
    return path


def install(root: Path, entries: Sequence[Entry]) -> Path:
    """Puts the journal where a host keeps its own, below `root`: journalctl --directory or --root finds it."""
    folder = root / "var/log/journal" / MACHINE
    folder.mkdir(parents=True, exist_ok=True)
    return write(folder / "system.journal", entries)
