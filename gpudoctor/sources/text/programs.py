"""The programs that people run when a GPU does not work: what may follow a sign that also stands before prose."""

from __future__ import annotations

_PROGRAMS = """
    nvidia-smi nvidia-smi.exe nvidia-settings nvidia-debugdump nvidia-persistenced nvidia-modprobe nvidia-container-cli nvidia-ctk nvidia-bug-report.sh
    nvidia-detect nvcc nvtop nvitop gpustat dcgmi nv-hostengine deviceQuery bandwidthTest cuda-gdb ncu nsys
    dmesg journalctl uname lspci lsmod modinfo modprobe insmod rmmod depmod dkms mokutil dpkg dpkg-query apt apt-get apt-cache aptitude rpm dnf yum
    zypper pacman apk emerge ubuntu-drivers update-initramfs dracut mkinitcpio gcc cc make ldconfig ldd
    ls cat head tail grep egrep zgrep fgrep find stat file readlink realpath less more
    env printenv export echo set unset id whoami groups ulimit free df du mount lsblk fuser lsof ps top htop kill pkill pgrep uptime nproc lscpu numactl
    taskset hostname hostnamectl cut awk sed sort date last who
    systemctl service loginctl systemd-detect-virt snap docker docker-compose podman nerdctl ctr crictl runc buildah singularity apptainer enroot lxc incus
    pct kubectl oc helm k3s microk8s minikube srun sbatch sinfo squeue scontrol sacct salloc slurmd nvidia-docker
    python python3 python2 pip pip3 conda mamba uv poetry torchrun accelerate deepspeed mpirun mpiexec horovodrun jupyter ollama vllm
    ibstat ibstatus ibv_devinfo ibv_devices ip ifconfig ethtool ibdev2netdev rdma show_gids perfquery mst mlxconfig mlxlink all_reduce_perf ib_write_bw
    ping nc ss curl wget ssh scp sudo su bash sh zsh cd chmod chown mkdir rm cp mv ln touch source reboot shutdown watch time timeout module ml
    grub-mkconfig update-grub bootctl efibootmgr sensors ipmitool dmidecode smartctl sysctl xrandr glxinfo vulkaninfo prime-select gdb strace
    wsl wsl.exe powershell lact tee xargs which whereis type command getent
"""
# Programs whose names are also words of prose: they need something that a sentence would not have.
_ALSO_WORDS = """
    date time make find set head tail file more less last type command watch free top kill source sort cut module service id who which export cat mount
    uptime su rm reboot ls ip docker podman kubectl python env slurmd snap apt ollama vllm python3 bash sh nc
"""
PROGRAMS = frozenset(_PROGRAMS.split())
ALSO_WORDS = frozenset(_ALSO_WORDS.split())
_DOCKER = (
    "run",
    "exec",
    "info",
    "ps",
    "logs",
    "compose",
    "version",
    "inspect",
    "start",
    "restart",
    "images",
    "pull",
    "build",
)
SUBCOMMANDS: dict[str, tuple[str, ...]] = {
    "docker": _DOCKER,
    "podman": _DOCKER,
    "kubectl": ("get", "describe", "logs", "exec", "apply", "top", "-n"),
    "ip": ("a", "addr", "address", "link", "route", "r", "l"),
    "snap": ("list", "info", "install"),
    "apt": ("list", "install", "show", "policy", "update", "upgrade", "search", "remove"),
    "module": ("list", "load", "avail"),
    "watch": ("nvidia-smi",),
    "time": ("python", "nvidia-smi"),
}
