"""One rich report that has everything a renderer must lay out."""

from __future__ import annotations

from gpudoctor.facts import Evidence
from gpudoctor.report import (
    Effect,
    Finding,
    HeldClue,
    NextCheck,
    ProbeRun,
    ProbeState,
    RankedCause,
    Report,
    Severity,
    Standing,
    Step,
    Tool,
    Verdict,
)

SMI_SAYS = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running."
)
DKMS_LINE = "nvidia/535.183.01, 6.8.0-49-generic, x86_64: installed"


def _not_loaded() -> Finding:
    built_for_another = RankedCause(
        id="not-built-for-this-kernel",
        title="The module was not built for the running kernel 6.8.0-51-generic",
        standing=Standing.LIKELY,
        score=6,
        held=[
            HeldClue(
                because="DKMS has builds, but none for the running kernel",
                weight="strong",
                evidence=[Evidence("dkms status", DKMS_LINE, 1)],
            ),
            HeldClue(
                because="a kernel package was installed 2 hours before this boot",
                weight="strong",
                evidence=[
                    Evidence(
                        "/var/log/apt/history.log", "Install: linux-image-6.8.0-51-generic:amd64 (automatic)", 118
                    )
                ],
            ),
        ],
        unknown=[
            HeldClue(because="the build failed before", check="cat /var/lib/dkms/nvidia/535.183.01/build/make.log")
        ],
        steps=[
            Step(say="See which kernels it was built for.", run="dkms status"),
            Step(
                say="Install the headers of the running kernel.",
                run="sudo apt-get install linux-headers-6.8.0-51-generic",
                effect=Effect.CHANGES,
            ),
            Step(
                say="Build and install the module; about three minutes.",
                run="sudo dkms install nvidia/535.183.01 -k 6.8.0-51-generic",
                effect=Effect.CHANGES,
            ),
            Step(
                say="Load it and look.",
                run="sudo modprobe nvidia && sudo modprobe nvidia_uvm && nvidia-smi --query-gpu=index,name,driver_version --format=csv",
                effect=Effect.CHANGES,
            ),
            Step(say="If it does not load, start the machine anew.", run="sudo reboot", effect=Effect.REBOOTS),
        ],
        references=["guide R2.C1"],
    )
    return Finding(
        rule="driver/module-not-loaded",
        subject="node",
        severity=Severity.CRITICAL,
        title="The NVIDIA driver is not running",
        action="restart-node",
        explain="Without its kernel module nothing can use the GPU.",
        evidence=[Evidence("nvidia-smi", SMI_SAYS, 1)],
        causes=[
            built_for_another,
            RankedCause(
                id="secure-boot",
                title="Secure Boot rejects the module",
                standing=Standing.POSSIBLE,
                unknown=[HeldClue(because="Secure Boot is on", check="mokutil --sb-state")],
                steps=[
                    Step(say="See whether Secure Boot is on.", run="mokutil --sb-state"),
                    Step(
                        say="Enrol the key that signed it.",
                        run="sudo mokutil --import /var/lib/dkms/mok.pub",
                        effect=Effect.REBOOTS,
                    ),
                ],
            ),
            RankedCause(
                id="blacklisted",
                title="A modprobe.d file keeps the module from being loaded",
                standing=Standing.RULED_OUT,
                against=[HeldClue(because="no file under modprobe.d names nvidia", weight="decisive")],
            ),
        ],
        references=["guide R2.C1"],
        consequences=[
            Finding(
                rule="driver/smi-fails",
                subject="node",
                severity=Severity.ERROR,
                title="nvidia-smi fails",
                consequences=[
                    Finding(
                        rule="container/no-gpu", subject="node", severity=Severity.ERROR, title="Docker has no GPU"
                    )
                ],
            ),
            Finding(rule="framework/no-cuda", subject="node", severity=Severity.ERROR, title="PyTorch sees no GPU"),
        ],
    )


def _narrow(bdf: str) -> Finding:
    return Finding(
        rule="pci/link-narrow",
        subject=f"gpu {bdf}",
        severity=Severity.WARNING,
        title="The PCIe link runs at x8 of x16",
        action="isolate",
        causes=[
            RankedCause(
                id="seat",
                title="The card or its riser is not seated well",
                standing=Standing.POSSIBLE,
                held=[
                    HeldClue(
                        because="the slot and the card can both do x16",
                        evidence=[Evidence("lspci -nnDvvv", "LnkSta: Speed 16GT/s, Width x8 (downgraded)", 41)],
                    )
                ],
                against=[HeldClue(because="no corrected bus errors were logged")],
                steps=[
                    Step(say="Compare both ends of the link.", run=f"sudo lspci -vv -s {bdf}"),
                    Step(say="Reseat the card and its riser.", effect=Effect.REPLACES),
                ],
            )
        ],
    )


def sample_report() -> Report:
    return Report(
        tool=Tool(version="0.1.0", rules=212),
        generated="2026-03-01T03:04:05Z",
        source="live",
        host="gpu-node-07",
        verdict=Verdict.FAIL,
        findings=[
            _not_loaded(),
            _narrow("0000:3b:00.0"),
            _narrow("0000:af:00.0"),
            Finding(
                rule="gpu/persistence-off",
                subject="node",
                severity=Severity.INFO,
                title="Persistence mode is off",
                causes=[
                    RankedCause(
                        id="default",
                        title="Nothing has switched it on since the boot",
                        standing=Standing.POSSIBLE,
                        steps=[
                            Step(
                                say="Switch it on.",
                                run="sudo systemctl enable --now nvidia-persistenced",
                                effect=Effect.CHANGES,
                            )
                        ],
                    )
                ],
            ),
        ],
        probes=[
            ProbeRun(name="host", state=ProbeState.OK, seconds=0.01, essential=True),
            ProbeRun(
                name="kernel_log",
                state=ProbeState.DENIED,
                seconds=0.02,
                problems=["permission denied (run as root, or join group adm)"],
                essential=True,
            ),
            ProbeRun(name="nvml", state=ProbeState.TIMED_OUT, seconds=5.0, problems=[]),
            ProbeRun(name="slurm", state=ProbeState.NO_EVIDENCE, seconds=0.0),
        ],
        next_checks=[
            NextCheck(
                say="See whether Secure Boot is on.", run="mokutil --sb-state", why="tells Secure Boot from the rest"
            ),
            NextCheck(say="Read the kernel log.", run="sudo dmesg --level=err,warn", why="it could not be read"),
        ],
    )
