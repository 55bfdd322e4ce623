"""Every rule: its examples, its quality, and its commands."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from gpudoctor.engine.examples import run_examples
from gpudoctor.engine.lint import lint
from gpudoctor.engine.model import Rule
from gpudoctor.engine.templates import fill
from tests.rules.reading import bundled, read_text

RULES = sorted(bundled().rules)
# Programs that steps may name: each is part of a distribution, of the driver, of CUDA, or of a tool that the rule's reference documents.
KNOWN = set(
    """
    apt apt-cache apt-get apt-key apt-mark awk bash break cat cd chmod chown chronyc cp crictl ctr curl cut date dcgmi depmod df diff dkms dmesg
    dmidecode dnf docker dpkg dpkg-query dpkg-reconfigure dracut du echo egrep env ethtool export fgrep file find for free fuser gcc gdb getent getfacl getsebool
    gpasswd gpudoctor grep groups grub2-mkconfig grubby gzip head helm hostnamectl ib_write_bw ibdev2netdev ibstat ibv_devices ibv_devinfo id ifconfig
    if insmod ip ipmitool iostat ipcs ipcrm journalctl jq k3s kill kubectl last ldconfig ldd less ln loginctl ls lsblk lscpu lsinitramfs lsinitrd lsmod lsof lspci
    lxc mdadm microk8s minikube mkdir mkinitcpio modinfo modprobe mokutil mount mpirun mpstat mv nccl-tests all_reduce_perf netstat newgrp nodeshell nsys numactl nvcc nvidia-bug-report.sh
    nvidia-container-cli nvidia-ctk nvidia-cuda-mps-control nvidia-debugdump nvidia-detect nvidia-imex nvidia-imex-ctl nvidia-installer nvidia-modprobe
    nvidia-persistenced nvidia-powerd nvidia-settings nvidia-smi nvidia-uninstall nvidia-xconfig nvlsm oc openssl pacman paste pct perl pgrep pidof pip pip3 pkill podman powerprofilesctl printenv
    printf prime-select prlimit ps py-spy pstree pwd python python3 qm rdma read readlink reboot rm rmmod rocm-smi rpm rsync runc sacct sacctmgr sbatch scontrol sed
    semodule sestatus set setenforce setfacl setpci setsebool sh shutdown sinfo singularity apptainer slurmctld slurmd sleep smartctl snap sort squeue srun ss stat strace strings su sudo swapon
    sysctl systemctl systemd-detect-virt systemd-nspawn tail tar taskset tee test timeout top torchrun touch tr trap true tune2fs ubuntu-drivers udevadm ulimit umount uname uniq
    unset unzip update-alternatives update-grub update-initramfs usermod uptime virsh virt-host-validate vmstat watch wc wget which while wsl wsl.exe xargs xdpyinfo yes yum zcat zgrep zypper
    accelerate conda fabricmanager nv-fabricmanager fwupdmgr grub-mkconfig kmod kubeadm mamba nvidia-container-runtime nvme rke2 update-pciids uv nvidia-sleep.sh
    docker-compose containerd crio ls6 restorecon ausearch audit2allow chcon needrestart numastat sensors turbostat cpupower tuned-adm perf dstat nvtop gdrcopy_sanity gpustat
    gdbus getconf hostname install lsns mkfs mknod nproc opensm perftest pcicrawler sginfo sminfo iblinkinfo ibdiagnet ibping ping nc telnet traceroute scp ssh tee
    mlxconfig mst flint show_gids cma_roce_mode nvbandwidth cuda-memcheck compute-sanitizer cuda-gdb nvidia-xid pyenv source . enroot pyxis sview sacctmgr sprio sdiag kmodsign sign-file
    eksctl gcloud az aws gsutil talosctl microk8s.kubectl k9s dcgmproftester12 cuda-install-samples semanage rpm-ostree akmods bootctl kernelstub efibootmgr akmod mhwd garuda-update yay paru emerge
    ollama vllm poetry pdm pipx nerdctl buildah skopeo kind crun conmon newuidmap sysctl swapoff fallocate mkswap systemd-cgls systemd-cgtop systemd-run cgget lscgroup lssubsys cgexec lxd incus pveam pveversion
    flatpak ras-mc-ctl
    proxmox-boot-tool sync base64 cmp xz zstd rdmsr numad irqbalance nvidia-cdi-hook jetson_release tegrastats nvpmodel jetson_clocks
    """.split()
)


@pytest.mark.parametrize("rule_id", RULES)
def test_examples(rule_id: str) -> None:
    results = run_examples(bundled().loaded[rule_id], read_text, bundled())
    assert [f"{r.example}: {r.problem}" for r in results if r.problem] == []


def test_quality() -> None:
    assert list(map(str, lint(bundled()))) == []


def commands(rule: Rule) -> Iterator[str]:
    """Every command of a rule, with its templates' fallbacks or a stand-in value."""
    for cause in rule.causes:
        for clue in [*cause.supports, *cause.against]:
            if clue.check:
                yield fill(clue.check, lambda _: None)
        for step in cause.steps:
            for run in step.run.values() if isinstance(step.run, dict) else [step.run]:
                if run:
                    yield re.sub(r"<[\w.\[\] ()+'\"-]+>", "VALUE", fill(run, lambda _: None))


@pytest.mark.parametrize("area", sorted({rule_id.split("/")[0] for rule_id in RULES}))
def test_commands_parse_as_shell_and_their_programs_are_known(area: str) -> None:
    problems = []
    for rule_id in RULES:
        if rule_id.split("/")[0] != area:
            continue
        for command in commands(bundled().rules[rule_id]):
            parsed = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True)
            if parsed.returncode:
                problems.append(f"{rule_id}: {command}: {parsed.stderr.strip()}")
            problems += [f"{rule_id}: {command}: unknown program {p}" for p in programs(command) if p not in KNOWN]
    assert problems == []


def programs(command: str) -> Iterator[str]:
    """The first word of each simple command, past sudo, assignments and wrappers. Raises nothing: bash has parsed it."""
    import bashlex

    try:
        trees = bashlex.parse(command)
    except Exception:  # constructs that bashlex does not know: bash -n has checked the syntax
        return
    ahead = list(trees)
    while ahead:
        node = ahead.pop()
        ahead += list(getattr(node, "parts", [])) + list(getattr(node, "list", []))
        if getattr(node, "command", None) is not None:
            ahead.append(node.command)
        if node.kind != "command":
            continue
        words = [p.word for p in node.parts if p.kind == "word"]
        while words and (words[0] in ("sudo", "env", "timeout", "watch", "nohup") or words[0].startswith("-") or "=" in words[0] or words[0].isdigit()):
            words = words[1:]
        if words and re.fullmatch(r"[\w.+-]+", words[0]):
            yield words[0]
