"""Prints the visible CUDA devices, and an `error` line for each on which no context can be made."""

from __future__ import annotations

from gpudoctor.workers.bench_main import Work, main_of


def run(work: Work) -> None:
    for _device, _seconds, _done in work.each_device("a look at it"):
        pass


def main() -> None:
    main_of("devices", run)


if __name__ == "__main__":
    main()
