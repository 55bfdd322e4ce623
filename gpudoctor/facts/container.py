"""The container that we are in, and the container runtimes of a host."""

from gpudoctor.facts.base import Fact


class InjectedLibrary(Fact, frozen=True, kw_only=True):
    path: str
    size_bytes: int | None = None
    version: str | None = None
    problem: str | None = None  # empty, dangling, mismatched


class Container(Fact, frozen=True, kw_only=True):
    """What this container sees of the host. The whole group is None on a host."""

    kind: str | None = None
    visible_devices: str | None = None  # NVIDIA_VISIBLE_DEVICES
    driver_capabilities: str | None = None  # NVIDIA_DRIVER_CAPABILITIES
    require_cuda: str | None = None  # NVIDIA_REQUIRE_CUDA
    device_nodes: list[str] | None = None
    driver_packages: list[str] | None = None  # of the image itself: a driver does not belong in it
    injected_libraries: list[InjectedLibrary] | None = None
    libraries_missing: list[str] | None = None
    cgroup_version: int | None = None
    cgroup_denies_gpu: bool | None = None
    hidden: list[str] | None = None  # what cannot be seen from in here: kernel log, host packages, ...
    privileged: bool | None = None
    user_namespace: bool | None = None


class Runtime(Fact, frozen=True, kw_only=True):
    """Container engines on the host."""

    toolkit_installed: bool | None = None
    toolkit_version: str | None = None
    docker_installed: bool | None = None
    docker_running: bool | None = None
    docker_version: str | None = None
    docker_runtimes: list[str] | None = None
    docker_default_runtime: str | None = None
    docker_daemon_json: str | None = None  # daemon.json as text
    docker_daemon_json_valid: bool | None = None
    docker_nvidia_configured: bool | None = None  # daemon.json names the nvidia runtime
    docker_restarted_since_config: bool | None = None
    docker_is_snap: bool | None = None
    docker_is_rootless: bool | None = None
    docker_is_desktop: bool | None = None
    docker_cgroup_driver: str | None = None
    docker_cgroup_version: int | None = None
    containerd_installed: bool | None = None
    containerd_nvidia_configured: bool | None = None
    containerd_default_runtime: str | None = None
    containerd_restarted_since_config: bool | None = None
    podman_installed: bool | None = None
    podman_version: str | None = None
    crio_nvidia_configured: bool | None = None
    cdi_specs: list[str] | None = None  # spec files found
    cdi_devices: list[str] | None = None
    cdi_spec_version_stale: bool | None = None  # a spec names driver files that do not exist any more
    cdi_stale_paths: list[str] | None = None
    cdi_wrong_numbers: list[str] | None = (
        None  # "/dev/nvidia-uvm 510, not 509": a spec's major against the host's node
    )
    toolkit_no_cgroups: bool | None = None
    toolkit_mode: str | None = None  # auto, legacy, cdi, csv
