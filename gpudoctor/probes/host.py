"""The machine that the evidence was taken on: distribution, kernel, memory, limits."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from gpudoctor.facts import Evidence, Host
from gpudoctor.probes import host_limits as limits
from gpudoctor.probes import host_os as names
from gpudoctor.probes.ask import exists, first_command, first_file, is_absent, is_machine, read_text, said
from gpudoctor.probes.collect import Collected, find_line, quote, quote_document
from gpudoctor.probes.container_detect import detect
from gpudoctor.probes.host_health import collect_health
from gpudoctor.probes.host_hints import collect_hints
from gpudoctor.probes.host_machine import collect_machine, collect_secure_boot
from gpudoctor.sources import requests
from gpudoctor.sources.answers import Source, Status

NAME = "host"


def probe(source: Source) -> Host | None:
    """The host's facts; in a container, of the container and of the kernel it shares."""
    found = Collected()
    _kernel(source, found)
    _distribution(source, found)
    container = detect(source)
    found.set("in_container", container.inside, container.evidence)
    found.set("container_kind", container.kind, container.evidence)
    collect_machine(source, found)
    collect_secure_boot(source, found)
    collect_hints(source, found)
    _load(source, found)
    _times(source, found)
    _cpus(source, found)
    _memory(source, found)
    _limits(source, found)
    _identity(source, found)
    collect_health(source, found)
    if not container.inside:
        _kernels(source, found)
    _compiler(source, found)
    found.set("init_system", read_text(source, "/proc/1/comm"))
    found.set("cpu_governor", read_text(source, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))
    balancing = read_text(source, "/proc/sys/kernel/numa_balancing")
    if balancing is not None and balancing.isdecimal():
        found.set("numa_balancing", balancing != "0")
    if found.values:
        found.set("time", datetime.fromtimestamp(source.now(), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    return found.build(Host)


def _kernel(source: Source, found: Collected) -> None:
    found.set("hostname", read_text(source, "/proc/sys/kernel/hostname") or None)
    for request in (requests.UNAME_A, requests.UNAME_R):
        answer = source.run(*request)
        uname = names.parse_uname(answer.stdout) if said(answer) else names.Uname(None, None, None)
        found.set("kernel_release", uname.release, quote(answer, 0))
        found.set("hostname", uname.hostname)
        found.set("arch", uname.arch)
        if uname.release and uname.arch:
            break
    version = source.read("/proc/version")
    if version.status is Status.OK:
        found.set("kernel_version_string", version.text.strip(), quote(version, 0))
        found.set("kernel_release", names.kernel_in_version_string(version.text), quote(version, 0))
        found.set("kernel_compiler", names.compiler_in_version_string(version.text), quote(version, 0))
    release = source.read("/proc/sys/kernel/osrelease")
    if release.status is Status.OK and release.text.strip():
        found.set("kernel_release", release.text.strip(), quote(release, 0))
    _kernel_from_log(source, found)
    found.set("arch", names.arch_in_release(found.get("kernel_release") or ""))


def _kernel_from_log(source: Source, found: Collected) -> None:
    """A kernel log begins with the same words as /proc/version; people paste it instead."""
    if is_machine(source) or found.get("kernel_release"):
        return
    for document in source.documents():
        if "Linux version" not in document.text:
            continue
        for index, line in enumerate(document.text.splitlines()[:20000]):
            match = re.search(r"\bLinux version \d\S+ \(.*", line)
            if match:
                evidence = Evidence(source=document.name, text=line.strip()[:400], line=index + 1)
                found.set("kernel_release", names.kernel_in_version_string(match[0]), evidence)
                found.set("kernel_compiler", names.compiler_in_version_string(match[0]), evidence)
                return
    for document in source.documents():
        # modprobe looks in the folder of the running kernel, so its complaint names it.
        match = re.search(r"modprobe: .*not found in directory /lib/modules/(\d[\w.+~-]*)", document.text)
        if match:
            index = document.text.count("\n", 0, match.start())
            found.set("kernel_release", match[1], quote_document(document, index))
            return


def _distribution(source: Source, found: Collected) -> None:
    answer = first_file(source, "/etc/os-release", "/usr/lib/os-release", "/etc/lsb-release")
    release = names.parse_os_release(answer.text) if answer is not None else names.OsRelease(None, None, None, ())
    if answer is not None and release.id:
        evidence = quote(answer, find_line(answer.text, "PRETTY_NAME"))
        found.set("os_id", release.id, evidence)
        found.set("os_version", release.version, evidence)
        found.set("os_name", release.name, evidence)
        manager = names.package_manager_of(release.id, release.version, release.like)
        found.set("package_manager", manager, evidence)
    origin = names.origin_of_kernel(found.get("kernel_release"))
    told_by_kernel = found.evidence.get("kernel_release")
    if found.get("os_id") is None:
        found.set("os_id", origin.os_id, told_by_kernel)
        found.set("os_version", origin.os_version, told_by_kernel)
    found.set("package_manager", origin.package_manager, told_by_kernel)
    found.set("cloud", origin.cloud, told_by_kernel)


# Words in the heads of what vmstat, iostat, mpstat and top print.
_LOAD_WORDS = ("swpd", "%util", "%iowait", "Cpu(s)", "%CPU")


def _load(source: Source, found: Collected) -> None:
    if is_machine(source) or not any(word in one.text for one in source.documents() for word in _LOAD_WORDS):
        return
    from gpudoctor.probes.host_load import collect_load

    collect_load(source.documents(), found)


def _times(source: Source, found: Collected) -> None:
    answer = source.read("/proc/uptime")
    seconds: float | None = None
    if answer.status is Status.OK:
        match = re.match(r"(\d+(?:\.\d+)?)", answer.text.strip())
        seconds = float(match[1]) if match else None
    else:
        command = first_command(source, ("uptime",), ("uptime", "-p")) if not is_machine(source) else None
        seconds = limits.parse_uptime(command.stdout) if command is not None else None
    if seconds is None:
        return
    found.set("uptime_seconds", seconds)
    if is_machine(source):
        boot = datetime.fromtimestamp(round(source.now() - seconds), tz=UTC)
        found.set("boot_time", boot.strftime("%Y-%m-%dT%H:%M:%SZ"))


def _cpus(source: Source, found: Collected) -> None:
    online = read_text(source, "/sys/devices/system/cpu/online")
    total = limits.parse_cpu_list(online) if online else None
    status = source.read("/proc/self/status")
    allowed = re.search(r"(?m)^Cpus_allowed_list:\s*(\S+)", status.text)
    usable = limits.parse_cpu_list(allowed[1]) if allowed else None
    quota = limits.parse_cpu_max(read_text(source, "/sys/fs/cgroup/cpu.max") or "")
    if quota is None:
        period = read_text(source, "/sys/fs/cgroup/cpu/cpu.cfs_period_us") or ""
        quota = limits.parse_cpu_max(f"{read_text(source, '/sys/fs/cgroup/cpu/cpu.cfs_quota_us') or ''} {period}")
    if usable is not None and quota is not None:
        usable = max(1, min(usable, int(quota)))
    found.set("cpu_count_total", total)
    found.set("cpu_count", usable)
    if usable is None and not is_machine(source):
        answer = source.run("nproc")
        if said(answer) and answer.stdout.strip().isdecimal():
            told = int(answer.stdout.strip())  # nproc knows of the affinity, not of the quota
            found.set("cpu_count", told if quota is None else max(1, min(told, int(quota))), quote(answer, 0))
        elif quota is not None:
            found.set("cpu_count", max(1, int(quota)))


def _memory(source: Source, found: Collected) -> None:
    answer = source.read("/proc/meminfo")
    memory, evidence = limits.Memory(), None
    if answer.status is Status.OK:
        memory, evidence = limits.parse_meminfo(answer.text), quote(answer, find_line(answer.text, "MemTotal"))
    elif not is_machine(source):
        for request, unit in ((requests.FREE, "m"), (("free", "-h"), "k"), (("free",), "k"), (("free", "-g"), "g")):
            command = source.run(*request)
            if said(command):
                memory = limits.parse_free(command.stdout, unit)
                evidence = quote(command, find_line(command.stdout, "Mem:"))
                break
    found.set("memory_total_mib", memory.total_mib, evidence)
    found.set("memory_available_mib", memory.available_mib, evidence)
    found.set("swap_total_mib", memory.swap_mib)
    mounts = source.read("/proc/self/mounts")
    if mounts.status is Status.OK:
        size, line = limits.parse_mounts_shm(mounts.text, memory.total_mib)
        found.set("shm_total_mib", size, quote(mounts, line))
    elif not is_machine(source):
        for argv in (requests.DF, ("df", "-h", "/dev/shm"), ("df", "/dev/shm"), ("df",)):
            command = source.run(*argv)
            size, line = limits.parse_df_shm(command.stdout) if said(command) else (None, None)
            found.set("shm_total_mib", size, quote(command, line))


_ONE_LIMIT = (("-l", "memlock_limit_kib"), ("-n", "nofile_limit"), ("-v", "address_space_limit_kib"))


def _limits(source: Source, found: Collected) -> None:
    answer = source.read("/proc/self/limits")
    if answer.status is Status.OK:
        values = limits.parse_proc_limits(answer.text)
        found.set("memlock_limit_kib", values.memlock_kib, quote(answer, values.memlock_line))
        found.set("nofile_limit", values.nofile, quote(answer, values.nofile_line))
        found.set("address_space_limit_kib", values.address_kib, quote(answer, values.address_line))
    elif not is_machine(source):
        command = source.run(*requests.ULIMIT)
        if said(command):
            values = limits.parse_ulimit(command.stdout)
            found.set("memlock_limit_kib", values.memlock_kib, quote(command, values.memlock_line))
            found.set("nofile_limit", values.nofile, quote(command, values.nofile_line))
            found.set("address_space_limit_kib", values.address_kib, quote(command, values.address_line))
        for option, field in _ONE_LIMIT:
            command = source.run("ulimit", option)
            found.set(field, limits.parse_one_limit(command.stdout) if said(command) else None, quote(command, 0))


def _identity(source: Source, found: Collected) -> None:
    status = source.read("/proc/self/status")
    if status.status is Status.OK:
        identity = limits.parse_proc_status(status.text, read_text(source, "/etc/group"))
    else:
        answer = source.run(*requests.ID)
        identity = limits.parse_id(answer.stdout) if said(answer) else limits.Identity(None, None)
    found.set("is_root", identity.is_root)
    found.set("user_groups", identity.groups)


def _kernels(source: Source, found: Collected) -> None:
    """Kernels on disk, the running one's headers, and whether a reboot is asked for. Not in a container: it has its own disk."""
    release = found.get("kernel_release")
    listing = source.list("/lib/modules")
    if listing.status is Status.OK:
        kernels = [name for name in listing.names if re.match(r"\d+\.\d+", name)]
        found.set("kernels_installed", kernels)
        if kernels:
            newest = max(kernels, key=names.kernel_sort_key)
            found.set(
                "newest_kernel_installed", newest, Evidence(source="/lib/modules", text=" ".join(kernels)[:400])
            )
    if release:
        path = f"/lib/modules/{release}/build"
        build = source.stat(path)
        if build.status is Status.OK:
            present = build.kind == "dir" or bool(build.target_exists)
            target = f"{path} -> {build.target}" if build.target else path
            words = target if present else f"{target} (missing)"
            found.set("kernel_headers_installed", present, Evidence(source=path, text=words))
        elif is_absent(build):
            found.set("kernel_headers_installed", False, Evidence(source=path, text=f"{path} does not exist"))
    for path in ("/run/reboot-required", "/var/run/reboot-required"):
        marker = source.read(path)
        if marker.status is Status.OK:
            found.set("reboot_required", True, quote(marker))
        elif is_absent(marker) and found.get("package_manager") == "apt" and exists(source, "/run"):
            found.set("reboot_required", False)


def _compiler(source: Source, found: Collected) -> None:
    """The host's compiler matters only where modules are built: on a machine, where DKMS has something to build."""
    if is_machine(source) and not source.list("/var/lib/dkms").names:
        return
    answer = source.run(*requests.GCC_VERSION)
    if said(answer):
        found.set("compiler_version", names.parse_gcc_version(answer.text), quote(answer, 0))
