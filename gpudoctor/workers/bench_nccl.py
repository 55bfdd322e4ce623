"""NCCL's bandwidth over all GPUs: of this host in one process, or of many hosts under torchrun, mpirun or srun.

Bus bandwidth as nccl-tests counts it, and every rank's result checked. Under a launcher each process takes part with
the GPU of its local rank (with all it sees when it is alone on its host), and rank 0 prints the figures.
"""

from __future__ import annotations

import argparse
import base64
import dataclasses
import os
import socket
import sys
from typing import Any

from gpudoctor.workers import nccl_plan
from gpudoctor.workers.bench_lines import Device, Error, Fault, Figure, say
from gpudoctor.workers.bench_main import Stopped, Work, main_of
from gpudoctor.workers.cuda_errors import WorkerError
from gpudoctor.workers.nccl_group import STEP_PATIENCE_S, Group
from gpudoctor.workers.nccl_library import Log, load, loopback_in, version_of, version_text, with_last_words
from gpudoctor.workers.nccl_programs import run_installed
from gpudoctor.workers.ranks import RankError, Ranks, ranks_of
from gpudoctor.workers.team import Leader, Member, Message, failed, gather, join
from gpudoctor.workers.watched import Watch, run_watched

MEETING_S, CONNECT_PATIENCE_S, SETUP_PATIENCE_S = 60.0, 90.0, 60.0
_REPEATS = 3
_REPEAT_S, _QUICK_REPEAT_S = 0.4, 0.1  # at most, for each repeat
_log: Log | None = None


def run(work: Work) -> None:
    try:
        ranks = None if work.arguments.alone else ranks_of(os.environ, plain=work.arguments.ranks)
    except RankError as error:
        raise failed(str(error), "RankError", "reading the launcher's variables") from error
    if ranks is None and len(work.devices) < 2:
        work.note("skipped", "there is only one GPU: nothing to communicate with")
        return
    if work.arguments.nccl_tests and ranks is None and run_installed(work):
        return
    watch = Watch()
    test = _Test(work, watch, ranks)
    try:
        run_watched(work, watch, test.run)
    except Stopped:
        raise
    except Exception as error:
        assert _log is not None
        raise WorkerError(with_last_words(error, watch.step()[0], _log)) from error
    finally:
        test.leave()
        if _log is not None:
            _log.to_stderr()


class _Test:
    def __init__(self, work: Work, watch: Watch, ranks: Ranks | None) -> None:
        self.work, self.watch, self.ranks = work, watch, ranks
        self.group: Group | None = None
        self.leader: Leader | None = None
        self.world = 0

    def run(self) -> None:
        self.watch.begin("loading NCCL", SETUP_PATIENCE_S)
        nccl, version = load(self.work.cuda)
        devices = chosen(self.work.devices, self.ranks)
        self.watch.begin("taking memory on the GPUs", SETUP_PATIENCE_S)
        self.group = group = Group(self.work.cuda, nccl, devices, self._largest())
        if group.unchecked:
            text = f"only the first 16 MiB of results are checked, through the host: {group.unchecked}"
            self.work.note("skipped", text)
        if self.ranks is None or self.ranks.rank == 0:
            self._lead(nccl, version, group)
        else:
            self._follow(version, group)

    def _largest(self) -> int:
        sizes = nccl_plan.QUICK_SIZES if self.work.arguments.quick else nccl_plan.SIZES
        return int(min(sizes[-1], self.work.arguments.max_bytes))

    def leave(self) -> None:
        """Lets the other processes go on, or end."""
        if self.leader is not None:
            self.leader.end()

    def _lead(self, nccl: Any, version: int, group: Group) -> None:
        timeout_s = min(MEETING_S, max(2.0, 0.6 * self.work.left()))
        if self.ranks is None:
            self.leader = leader = Leader([], [])
        else:
            self.watch.begin("waiting for the other ranks", timeout_s + 10)
            self.leader = leader = gather(self.ranks, timeout_s)
        check_versions(version, leader.others)
        sizes = [group.size, *(int(hello["size"]) for hello in leader.others)]
        seats = [len(group.seats), *(int(hello["gpus"]) for hello in leader.others)]
        self.world = sum(seats)
        size = min(sizes)
        if size < self._largest():
            self.work.note("shrunk", f"{size >> 20} MiB at most: not enough free memory for more", value=size / 2**20)
        self.watch.begin("starting NCCL", SETUP_PATIENCE_S)
        unique_id = to_bytes(nccl.get_unique_id())
        check_address(unique_id, leader.others)
        orders: list[Message] = [
            {
                "id": base64.b64encode(unique_id).decode(),
                "rank": sum(seats[:process]),
                "ranks": self.world,
                "size": size,
            }
            for process in range(1, len(seats))
        ]
        self.watch.begin(f"connecting {self.world} ranks", CONNECT_PATIENCE_S, suspicious_s=10.0)
        leader.tell(orders)
        group.connect(unique_id, 0, self.world, size)
        leader.all({"do": "ready"}, lambda order: {}, CONNECT_PATIENCE_S)
        plan = nccl_plan.plan(size, self.world, quick=self.work.arguments.quick)
        for done, step in enumerate(plan):
            try:
                self.work.check_time()
            except Stopped:
                self.work.note("skipped", f"{len(plan) - done} of {len(plan)} measurements were not made")
                raise
            self.work.progress(done / len(plan), f"{step.collective} {round(step.size / 2**20)} MiB")
            self._measure(leader, step, self.work.left() / (len(plan) - done))

    def _measure(self, leader: Leader, step: nccl_plan.Step, budget_s: float) -> None:
        # Connections for a collective are made in its first run, so that the second one tells how long it takes.
        once = self._order(leader, step, "time", iterations=1, repeats=1)
        seconds = max(min(answer["seconds"]) for answer in once)
        for answer in self._order(leader, step, "check"):
            for fault in answer["wrong"]:
                self._fault(step, fault)
        most_s = _QUICK_REPEAT_S if self.work.arguments.quick else _REPEAT_S
        count = nccl_plan.iterations(seconds, min(most_s, 0.5 * budget_s / _REPEATS))
        answers = self._order(leader, step, "time", iterations=count, repeats=_REPEATS)
        mean, spread = nccl_plan.combined([answer["seconds"] for answer in answers])
        say(
            Figure(
                metric=step.collective,
                value=round(nccl_plan.bus_bandwidth(step, self.world, mean), 3),
                unit="GB/s",
                size_bytes=step.size,
                repeats=_REPEATS * count,
                spread=round(spread, 4),
            )
        )

    def _order(self, leader: Leader, step: nccl_plan.Step, what: str, **more: int) -> list[Message]:
        order = {"do": what, "collective": step.collective, "count": step.count, **more}
        patience_s = 2 * STEP_PATIENCE_S
        self.watch.begin(f"running {step.collective} of {round(step.size / 2**20)} MiB", patience_s, suspicious_s=5.0)
        return leader.all(order, self._execute, patience_s)

    def _execute(self, order: Message) -> Message:
        assert self.group is not None
        collective, count = str(order["collective"]), int(order["count"])
        if order["do"] == "time":
            return {"seconds": self.group.time(collective, count, int(order["iterations"]), int(order["repeats"]))}
        wrong = self.group.check(collective, count)
        return {
            "wrong": [
                {"rank": rank, "device": self._ordinal(rank), "what": found.describe(), **dataclasses.asdict(found)}
                for rank, found in wrong
            ]
        }

    def _ordinal(self, rank: int) -> int | None:
        """The device of a rank, where only one process prints; with many, ordinals of other hosts mislead."""
        assert self.group is not None
        return self.group.seats[rank - self.group.first_rank].device.ordinal if self.ranks is None else None

    def _fault(self, step: nccl_plan.Step, wrong: Message) -> None:
        say(
            Fault(
                kind="wrong_result",
                text=f"{step.collective} of {round(step.size / 2**20)} MiB: rank {wrong['rank']} received {wrong['what']}",
                device=wrong["device"],
                metric=step.collective,
                count=wrong["count"],
                address=f"{wrong['index'] * nccl_plan.ELEMENT:#x}",
                expected=str(wrong["expected"]),
                got=None if wrong["got"] is None else str(wrong["got"]),
            )
        )

    def _follow(self, version: int, group: Group) -> None:
        assert self.ranks is not None
        timeout_s = min(MEETING_S, max(2.0, 0.6 * self.work.left()))
        self.work.note("other", f"rank {self.ranks.rank} of {self.ranks.world}: rank 0 prints the figures")
        self.watch.begin("connecting to rank 0", timeout_s + 10)
        hello = {"host": socket.gethostname(), "gpus": len(group.seats), "size": group.size, "nccl": version}
        member = join(self.ranks, hello, timeout_s)
        # Rank 0 answers once all have come.
        self.watch.begin("waiting for the other ranks", timeout_s + 10)
        place = member.next(timeout_s + 5)
        if place.get("do") == "end":
            why = place.get("why", "it ended before the test began")
            raise failed(f"rank 0 says: {why}", "RankLost", "waiting for the other ranks")
        self.world = int(place["ranks"])
        try:
            self.watch.begin(f"connecting {self.world} ranks", CONNECT_PATIENCE_S, suspicious_s=10.0)
            group.connect(base64.b64decode(place["id"]), int(place["rank"]), self.world, int(place["size"]))
            self._obey(member)
        except Exception as error:
            assert _log is not None
            line = with_last_words(error, self.watch.step()[0], _log)
            told = {"error": line.message, "api": line.api, "name": line.name, "code": line.code, "where": line.where}
            member.answer(told)
            raise
        finally:
            member.close()

    def _obey(self, member: Member) -> None:
        while True:
            self.watch.begin("waiting for orders of rank 0", 4 * STEP_PATIENCE_S)
            order = member.next(3 * STEP_PATIENCE_S)
            if order.get("do") == "end":
                return
            if order.get("do") == "ready":
                member.answer({})
                continue
            self.watch.begin(f"running {order['collective']}", 2 * STEP_PATIENCE_S, suspicious_s=5.0)
            member.answer(self._execute(order))


def chosen(devices: list[Device], ranks: Ranks | None) -> list[Device]:
    """The GPUs of this process: all, or under a launcher with several processes on a host the one of its local rank."""
    if ranks is None or ranks.local_world == 1:
        return devices
    return [devices[ranks.local_rank % len(devices)]]


def check_versions(mine: int, others: list[Message]) -> None:
    """Raises WorkerError when processes have different versions of NCCL, which cannot talk to each other."""
    for hello in others:
        theirs = hello.get("nccl")
        if theirs != mine:
            version = version_text(theirs) if isinstance(theirs, int) else "none"
            words = (
                f"rank {hello.get('rank')} on {hello.get('host')} has NCCL {version}, rank 0 has {version_text(mine)}: "
                "all ranks need the same version"
            )
            raise WorkerError(Error(api="nccl", message=words, name="VersionMismatch", where="comparing versions"))


def check_address(unique_id: bytes, others: list[Message]) -> None:
    """Raises WorkerError when ranks of other hosts are to meet at an address that only this host reaches."""
    address = loopback_in(unique_id)
    far = [hello for hello in others if hello.get("host") != socket.gethostname()]
    if address is None or not far:
        return
    setting = os.environ.get("NCCL_SOCKET_IFNAME")
    why = f"NCCL_SOCKET_IFNAME is {setting!r}" if setting else "it found no other network interface"
    words = f"Bootstrap: NCCL waits for {len(far)} ranks of other hosts at {address}, which they cannot reach: {why}"
    raise WorkerError(Error(api="nccl", message=words, name="LoopbackOnly", where="starting NCCL"))


def to_bytes(unique_id: Any) -> bytes:
    """CuPy before 14 gives NCCL's unique id as a tuple of signed numbers."""
    return unique_id if isinstance(unique_id, bytes) else bytes(number & 0xFF for number in unique_id)


def _lines_only_on_stdout() -> None:
    """NCCL and its plugins print to stdout; only this worker's lines shall come out there."""
    sys.stdout.flush()
    lines = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(lines, "w", encoding="utf-8")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="fewer sizes")
    parser.add_argument("--max-bytes", type=int, default=nccl_plan.SIZES[-1], help="largest size")
    parser.add_argument("--nccl-tests", action="store_true", help="measure by nccl-tests where they are installed")
    parser.add_argument("--alone", action="store_true", help="this host only, also under a launcher")
    parser.add_argument("--ranks", action="store_true", help="believe RANK and WORLD_SIZE without torchrun")


def main() -> None:
    global _log
    _lines_only_on_stdout()
    _log = Log()
    main_of("nccl", run, add_arguments, version_of)


if __name__ == "__main__":
    main()
