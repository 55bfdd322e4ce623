"""Pasted text: which command each part is the output of, whatever it was pasted from."""

from __future__ import annotations

import pytest

from gpudoctor.facts import DocumentKind
from gpudoctor.sources import open_text
from gpudoctor.sources import requests as known
from gpudoctor.sources.answers import Status
from tests.sources import samples

KERNEL = "6.8.0-49-generic"


@pytest.mark.parametrize(
    "prompt",
    [
        "$ ",
        "# ",
        "> ",
        "% ",
        "❯ ",
        "+ ",
        "alice@node7:~$ ",
        "alice@node7:~/train/run-1$ ",
        "root@node7:~# ",
        "root@node7:/home/alice# ",
        "(base) alice@node7:~$ ",
        "(venv) $ ",
        "(torch) [alice@node7 run]$ ",
        "[root@node7 ~]# ",
        "[alice@node7 ~]$ ",
        "node7:~ # ",
        "alice@node7 ~ % ",
        "alice@node7 ~> ",
        "sh-4.4# ",
        "bash-5.1$ ",
        "/ # ",
        "/workspace# ",
        "~ $ ",
        "➜  ~ ",
        "➜  run git:(main) ✗ ",
        "[10:21:33] alice@node7:~$ ",
        "    $ ",
        "PS C:\\Users\\alice> ",
        "C:\\Users\\alice>",
    ],
)
def test_a_command_is_found_behind_any_prompt(prompt: str) -> None:
    source = open_text(f"{prompt}uname -r\n{KERNEL}\n{prompt}mokutil --sb-state\nSecureBoot disabled\n")
    assert source.run("uname", "-r").stdout.strip() == KERNEL
    assert source.run("uname", "-r").line_numbers == [2]
    assert source.run(*known.MOKUTIL_SB_STATE).stdout == "SecureBoot disabled"


@pytest.mark.parametrize(
    "typed",
    ["sudo uname -r", "LC_ALL=C uname -r", "/usr/bin/uname -r", "time uname -r", "sudo -u alice uname -r", "uname -r 2>/dev/null", "timeout 5 uname -r", "uname -r | tee kernel.txt", "cd /tmp && uname -r", "bash -c 'uname -r'", "env A=b uname -r", "uname -r > x"],
)  # fmt: skip
def test_wrappers_do_not_hide_a_command(typed: str) -> None:
    assert open_text(f"$ {typed}\n{KERNEL}\n").run("uname", "-r").stdout == KERNEL


@pytest.mark.parametrize(
    "heading",
    ["uname -r", "`uname -r`", "**uname -r**", "Output of `uname -r`:", "1. uname -r", "uname -r:", "### uname -r"],
)
def test_a_command_may_be_a_heading(heading: str) -> None:
    assert open_text(f"My kernel.\n\n{heading}\n```\n{KERNEL}\n```\n").run("uname", "-r").stdout == KERNEL


@pytest.mark.parametrize(
    "text",
    [
        "# My problem with nvidia-smi\nIt fails.\n",
        "# gpu     sm    mem    enc    dec\n    0      8      3      0      0\n",
        "> I ran nvidia-smi and it worked\nsome text",
        "- make sure that the driver is there\n",
        "$ 5.00 is the price\nof nothing\n",
        "nvidia-smi works fine here.\n6.8.0\n",
        "+ added line of a diff\n- removed\n",
        "100% done\n",
        "#0  0x00007f in raise () from /lib/libc.so.6\n",
    ],
)
def test_prose_is_no_command(text: str) -> None:
    source = open_text(text)
    assert source.answers.commands == {}  # type: ignore[attr-defined]


def test_an_empty_filtered_output_proves_absence() -> None:
    answer = open_text("$ lsmod | grep nvidia\n$ uname -r\n6.8.0\n").run("lsmod")
    assert (answer.status, answer.filtered_by, answer.stdout) == (Status.OK, "nvidia", "")


def test_so_does_a_count_of_zero() -> None:
    source = open_text("$ ldconfig -p | grep -c libnvidia-ml\n0\n$ lsmod | grep nvidia | wc -l\n0\n")
    for argv in (known.LDCONFIG, known.LSMOD):
        assert (source.run(*argv).stdout, source.run(*argv).status) == ("", Status.OK)
        assert source.run(*argv).filtered_by


def test_another_count_is_no_output() -> None:
    source = open_text("$ nvidia-smi -L | wc -l\n8\n")
    assert source.run("nvidia-smi", "-L").status is Status.NOT_RECORDED
    assert source.run("count", "nvidia-smi", "-L").stdout == "8"


def test_rewritten_lines_are_not_the_commands() -> None:
    source = open_text("$ lspci | awk '{print $1}'\n00:00.0\n$ dmesg | cut -c1-3\n[ 0\n")
    assert source.run(*known.LSPCI).status is Status.NOT_RECORDED
    assert source.run(*known.DMESG).status is Status.NOT_RECORDED


@pytest.mark.parametrize(
    ("typed", "pattern"),
    [
        ("dmesg | grep -i nvrm", "nvrm"),
        ("sudo dmesg -T | grep -iE 'nvrm|xid'", "nvrm|xid"),
        ("dmesg | grep 'NVRM\\|Xid'", "NVRM|Xid"),
        ("dmesg --color=never | egrep -A3 NVRM", "NVRM"),
        ("dmesg | grep -e NVRM -e Xid", "NVRM|Xid"),
        ("dmesg | grep nvidia | grep -v snd | grep NVRM", "nvidia && NVRM"),
    ],
)
def test_what_a_log_was_filtered_with(typed: str, pattern: str) -> None:
    answer = open_text(f"$ {typed}\n[   12.300000] {samples.XID}\n").run("dmesg")
    assert answer.filtered_by == pattern
    assert samples.XID in answer.stdout


@pytest.mark.parametrize(
    ("typed", "request_"),
    [
        ("dmesg -w", known.DMESG),
        ("dmesg -T --level=err,warn", known.DMESG),
        ("journalctl -k", known.JOURNAL_KERNEL),
        ("journalctl --dmesg --no-pager -b 0", known.JOURNAL_KERNEL),
        ("journalctl -k -b -1 | grep NVRM", ("journalctl", "-k", "-b", "-1")),
        ("journalctl -b -2 -k", ("journalctl", "-k", "-b", "-2")),
        ("cat /var/log/kern.log | grep NVRM", known.SYSLOG),
        ("grep NVRM /var/log/syslog", known.SYSLOG),
        ("sudo tail -n 100 /var/log/messages", known.SYSLOG),
    ],
)
def test_ways_to_show_the_kernel_log(typed: str, request_: tuple[str, ...]) -> None:
    line = f"Jan 20 10:18:27 node7 kernel: {samples.XID}"
    assert open_text(f"$ {typed}\n{line}\n").run(*request_).stdout == line


@pytest.mark.parametrize(
    ("typed", "requests"),
    [
        ("lspci", [known.LSPCI]),
        ("lspci -nn | grep -i nvidia", [known.LSPCI]),
        ("lspci -nnk -d 10de:", [known.LSPCI]),
        ("sudo lspci -vvv -s 3b:00.0", [known.LSPCI, known.LSPCI_VVV]),
        ("nvidia-smi --query", [known.NVIDIA_SMI_Q]),
        ("nvidia-smi -q -d ECC", [known.NVIDIA_SMI_Q]),
        ("nvidia-smi -x -q", [known.NVIDIA_SMI_XML]),
        ("nvidia-smi --list-gpus", [known.NVIDIA_SMI_L]),
        ("watch -n 1 nvidia-smi", [known.NVIDIA_SMI]),
        ("nvidia-smi.exe", [known.NVIDIA_SMI]),
        ("nvidia-smi topo --matrix", [known.NVIDIA_SMI_TOPO]),
        ("pip3 list | grep torch", [known.PIP_LIST]),
        ("python3 -m pip freeze", [known.PIP_LIST]),
        ("rpm -q nvidia-driver", [known.RPM_LIST]),
        ("modinfo nvidia-current", [known.MODINFO_NVIDIA]),
        ("modprobe nvidia", [known.MODPROBE_NVIDIA]),
        ("docker system info", [known.DOCKER_INFO]),
        ("ip a", [known.IP_ADDR]),
        ("./build/all_reduce_perf -b 8 -e 1G", [known.NCCL_TESTS]),
        ("kubectl -n gpu describe pod train-0", [known.KUBECTL_DESCRIBE_POD]),
        ("systemctl status nvidia-fabricmanager.service --no-pager", [known.FABRIC_MANAGER_STATUS]),
        ("service docker status", [("systemctl", "status", "docker")]),
        ("which nvidia-smi", [("which", "nvidia-smi")]),
    ],
)
def test_forms_of_a_command_answer_the_canonical_request(typed: str, requests: list[tuple[str, ...]]) -> None:
    source = open_text(f"$ {typed}\nsome output of it /bin/nvidia-smi\n")
    for request in requests:
        assert source.run(*request).status is not Status.NOT_RECORDED, request


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        ("docker run --rm --gpus all -e A=b -v /x:/y nvidia/cuda:12.2.0-base nvidia-smi", "docker-run"),
        ("sudo docker exec -it web bash -c 'nvidia-smi'", "docker-run"),
        ("podman run --rm image nvidia-smi", "docker-run"),
        ("kubectl exec train-0 -- nvidia-smi", "kubectl-exec"),
    ],
)
def test_what_runs_elsewhere_says_nothing_of_this_machine(typed: str, place: str) -> None:
    source = open_text(f"$ {typed}\n{samples.TABLE_535}\n$ uname -r\n{KERNEL}\n")
    assert source.run("nvidia-smi").status is Status.NOT_RECORDED
    assert "Tesla T4" in source.run(place, "nvidia-smi").stdout
    assert source.run("uname", "-r").stdout == KERNEL


def test_other_hosts_and_jobs_are_elsewhere() -> None:
    source = open_text(
        f"$ ssh node9 nvidia-smi\n{samples.TABLE_535}\n$ srun -N1 nvidia-smi -L\n{samples.LISTING}\n$ uname -r\nx\n"
    )
    assert source.run("nvidia-smi").status is Status.NOT_RECORDED
    assert source.run("nvidia-smi", "-L").status is Status.NOT_RECORDED


def test_a_containers_prompt_is_elsewhere_beside_the_hosts() -> None:
    inside = "root@3f2a90c1d7e4:/# nvidia-smi\nFailed to initialize NVML: Unknown Error\nroot@3f2a90c1d7e4:/# exit\n"
    both = open_text(inside + f"alice@node7:~$ nvidia-smi -L\n{samples.LISTING}")
    assert both.run("nvidia-smi").status is Status.NOT_RECORDED
    assert "Unknown Error" in both.run("docker-run", "nvidia-smi").stdout
    assert both.run("nvidia-smi", "-L").status is Status.OK
    alone = open_text(inside)
    assert alone.run("nvidia-smi").status is Status.FAILED


def test_files_that_were_shown() -> None:
    source = open_text(
        '$ cat /etc/docker/daemon.json\n{\n  "runtimes": {}\n}\n'
        "$ cat /etc/modprobe.d/nope.conf\ncat: /etc/modprobe.d/nope.conf: No such file or directory\n"
        "$ sudo head -2 /etc/slurm/gres.conf\nName=gpu\nName=gpu\n"
        "$ grep -n no-cgroups /etc/nvidia-container-runtime/config.toml\n14:no-cgroups = true\n"
        "$ grep -c nvidia /etc/containerd/config.toml\n0\n"
        "$ cat /root/secret\ncat: /root/secret: Permission denied\n"
    )
    assert source.read("/etc/docker/daemon.json").text == '{\n  "runtimes": {}\n}\n'
    assert not source.read("/etc/docker/daemon.json").truncated
    assert source.read("/etc/modprobe.d/nope.conf").status is Status.NOT_FOUND
    assert source.read("/etc/slurm/gres.conf").truncated
    toolkit = source.read("/etc/nvidia-container-runtime/config.toml")
    assert (toolkit.text, toolkit.filtered_by) == ("no-cgroups = true\n", "no-cgroups")
    containerd = source.read("/etc/containerd/config.toml")
    assert (containerd.status, containerd.text, containerd.filtered_by) == (Status.OK, "", "nvidia")
    assert source.read("/root/secret").status is Status.DENIED


def test_device_nodes_that_were_listed() -> None:
    source = open_text("$ ls /dev/nvidia*\n/dev/nvidia0  /dev/nvidiactl\n")
    assert source.stat("/dev/nvidia0").status is Status.OK
    assert source.stat("/dev/nvidia-uvm").status is Status.NOT_FOUND
    assert source.stat("/dev/dri/card0").status is Status.NOT_RECORDED
    listed = source.list("/dev")
    assert (listed.names, listed.filtered_by) == (["nvidia0", "nvidiactl"], "nvidia*")


def test_device_nodes_that_were_listed_long() -> None:
    source = open_text(
        "$ ls -l /dev/nvidia*\n"
        "crw-rw-rw- 1 root root 195,   0 Jan 20 10:00 /dev/nvidia0\n"
        "crw------- 1 root root 195, 255 Jan 20 10:00 /dev/nvidiactl\n"
        "\n/dev/nvidia-caps:\ntotal 0\n"
    )
    control = source.stat("/dev/nvidiactl")
    assert (control.kind, control.mode, control.major, control.minor, control.uid) == ("char", "0600", 195, 255, 0)
    assert source.run(*known.LS_DEV_NVIDIA).stdout.startswith("crw-rw-rw-")


def test_a_glob_that_matches_nothing() -> None:
    source = open_text("$ ls /dev/nvidia*\nls: cannot access '/dev/nvidia*': No such file or directory\n")
    assert source.stat("/dev/nvidia0").status is Status.NOT_FOUND
    assert source.list("/dev").names == []


def test_directories_that_were_listed() -> None:
    source = open_text(
        "$ ls -l /usr/lib/wsl/lib\ntotal 8\nlrwxrwxrwx 1 root root 12 Jan 1 2024 libcuda.so -> libcuda.so.1\n"
        "-r-xr-xr-x 1 root root 0 Jan 1 2024 libcuda.so.1\n$ ls -l /dev/char | grep nvidia\n$ ls /nope\n"
        "ls: cannot access '/nope': No such file or directory\n"
    )
    assert source.list("/usr/lib/wsl/lib").names == ["libcuda.so", "libcuda.so.1"]
    assert source.stat("/usr/lib/wsl/lib/libcuda.so").target == "libcuda.so.1"
    assert source.stat("/usr/lib/wsl/lib/libcuda.so.1").size_bytes == 0
    assert (source.list("/dev/char").names, source.list("/dev/char").filtered_by) == ([], "nvidia")
    assert source.list("/nope").status is Status.NOT_FOUND


def test_the_environment() -> None:
    source = open_text(
        "$ echo $CUDA_VISIBLE_DEVICES\n0,1\n$ env | grep -i nccl\nNCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME=eth0\n"
        "$ printenv LD_LIBRARY_PATH\n/usr/local/cuda/lib64\n$ export CUDA_HOME=/opt/cuda\n$ echo hello\nhello\n"
    )
    assert source.environment() == {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_DEBUG": "INFO",
        "NCCL_SOCKET_IFNAME": "eth0",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
    }


def test_values_become_the_canonical_outputs() -> None:
    source = open_text(
        "$ ulimit -l\n8192\n$ modinfo -F version nvidia\n595.58.03\n"
        "$ free -h\n               total        used        free\nMem:           7.7Gi       6.9Gi       181Mi\nSwap:             0B          0B          0B\n"
        "$ systemctl is-active nvidia-persistenced\ninactive\n"
        "$ dpkg -l | grep nvidia | awk '{print $2, $3}'\nnvidia-driver-535 535.183.01-0ubuntu1\n"
    )
    assert source.run(*known.ULIMIT).stdout.split() == ["max", "locked", "memory", "(kbytes,", "-l)", "8192"]
    assert source.run(*known.MODINFO_NVIDIA).stdout.split() == ["version:", "595.58.03"]
    assert source.run(*known.FREE).stdout.split("\n")[1].split() == ["Mem:", "7885", "7066", "181"]
    assert source.run("systemctl", "status", "nvidia-persistenced").stdout.strip() == "Active: inactive"
    assert source.run(*known.DPKG_LIST).stdout == "ii  nvidia-driver-535 535.183.01-0ubuntu1"


def test_csv_always_has_a_header() -> None:
    source = open_text("$ nvidia-smi --query-gpu=name,driver_version --format=csv,noheader\nTesla T4, 535.183.01\n")
    assert source.run(*known.NVIDIA_SMI_QUERY_GPU).stdout == "name, driver_version\nTesla T4, 535.183.01"
    source = open_text("$ nvidia-smi --query-gpu=name --format=csv\nname\nTesla T4\n")
    assert source.run(*known.NVIDIA_SMI_QUERY_GPU).stdout == "name\nTesla T4"
    source = open_text("$ nvidia-smi --query-gpu=name --format=csv,noheader | sort | uniq -c\n   2 Tesla T4\n")
    assert source.run(*known.NVIDIA_SMI_QUERY_GPU).stdout == "name\nTesla T4\nTesla T4"


def test_python_sessions_are_one_answer() -> None:
    source = open_text(
        ">>> import torch\n>>> torch.cuda.is_available()\nFalse\n"
        '$ python -c "import torch; print(torch.version.cuda)"\nNone\n'
        ">>> torch.__version__\n'2.1.0+cpu'\n"
    )
    text = source.run(*known.TORCH_CHECK).stdout
    assert ">>> torch.cuda.is_available()\nFalse" in text
    assert "'2.1.0+cpu'" in text


def test_a_missing_program() -> None:
    for said in (
        "bash: nvcc: command not found",
        "nvcc: command not found",
        "Command 'nvcc' not found, but can be installed with:",
    ):
        assert open_text(f"$ nvcc --version\n{said}\n").run(*known.NVCC_VERSION).status is Status.NOT_FOUND
    assert (
        open_text("$ which nvidia-ctk docker\n/usr/bin/docker\n").run("which", "nvidia-ctk").status
        is Status.NOT_FOUND
    )


def test_outputs_without_a_prompt() -> None:
    source = open_text(
        f"Here is all I have.\n\n{samples.TABLE_535}\nand the log says\n{samples.LOGS['bare']}\n{samples.LSPCI}\nThanks!"
    )
    assert "Tesla T4" in source.run("nvidia-smi").stdout
    assert samples.XID in source.run("dmesg").stdout
    assert source.run("dmesg").truncated
    assert "TU104GL" in source.run(*known.LSPCI).stdout


def test_kernel_lines_behind_another_commands_output() -> None:
    source = open_text(f"$ nvidia-smi --query-gpu=temperature.gpu --format=csv,noheader\n92\nkernel: {samples.XID}\n")
    assert source.run(*known.NVIDIA_SMI_QUERY_GPU).stdout == "temperature.gpu\n92"
    assert source.run("dmesg").line_numbers == [3]


def test_the_whole_paste_is_searched_and_its_kernel_lines_as_a_kernel_log() -> None:
    source = open_text(f"my app died\nRuntimeError: CUDA error\n[   12.300000] {samples.XID}\n")
    kinds = {document.kind: document for document in source.documents()}
    assert kinds[DocumentKind.PASTE].text.split("\n")[1] == "RuntimeError: CUDA error"
    assert kinds[DocumentKind.KERNEL_LOG].line_numbers == [3]


def test_terminal_codes_markdown_and_windows_line_ends() -> None:
    text = (
        "<details>\r\n\r\n```console\r\n\x1b]0;alice@node7: ~\x07\x1b[01;32malice@node7\x1b[00m:\x1b[01;34m~\x1b[00m$ uname -r\r\n"
        "6.8.0-49-\x1b[01;31m\x1b[Kgeneric\x1b[m\x1b[K\r\n```\r\n</details>\r\n"
    )
    source = open_text(text)
    assert source.run("uname", "-r").stdout == KERNEL
    assert source.run("uname", "-r").line_numbers == [5]


def test_a_quoted_mail() -> None:
    text = "\n".join(
        f"> {line}" for line in ["Hello,", "", "$ uname -r", KERNEL, "$ dkms status", "nvidia/535.1: added"]
    )
    source = open_text(text)
    assert source.run("uname", "-r").stdout == KERNEL
    assert source.run("dkms", "status").line_numbers == [6]


def test_odd_spaces_and_quotes() -> None:
    source = open_text(
        "$\u00a0nvidia-smi\nNVIDIA-SMI\u00a0has failed because it couldn\u2019t communicate with the NVIDIA driver.\n"
    )
    assert source.run("nvidia-smi").status is Status.FAILED
    assert "couldn't communicate" in source.documents()[0].text


def test_progress_bars_show_their_last_state() -> None:
    assert open_text("10%\r50%\r100% done\n").documents()[0].text == "100% done\n"


def wrapped(line: str, width: int) -> str:
    return "\n".join(line[i : i + width] for i in range(0, len(line), width))


@pytest.mark.parametrize("width", [80, 97, 120])
def test_a_message_that_the_terminal_wrapped_is_one_line(width: int) -> None:
    message = (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
        "driver is installed and running, and that nothing else in this long line is lost when it is wrapped again and again."
    )
    log = "[  812.118000] NVRM: Xid (PCI:0000:3b:00): 119, pid=2211, name=nvidia-smi, Timeout waiting for RPC from GSP! Expected function 76 (GSP_RM_CONTROL) (0x2080a0d4 0x4)."
    text = (
        f"$ nvidia-smi\n{wrapped(message, width)}\n$ dmesg | tail -1\n{wrapped(log, width)}\n$ uname -r\n{KERNEL}\n"
    )
    source = open_text(text)
    assert message in source.documents()[0].text.split("\n")
    assert source.run("nvidia-smi").line_numbers == [2]
    assert source.run("dmesg").stdout == log
    assert source.run("uname", "-r").stdout == KERNEL


def test_a_sentence_broken_between_words_is_searched_as_one() -> None:
    text = 'docker: Error response from daemon: could not select device driver ""\nwith capabilities: [[gpu]].\n\nThanks\n'
    document = open_text(text).documents()[0]
    whole = 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].'
    assert document.text.startswith(text)
    assert document.line_numbers is not None
    assert document.line_numbers[document.text.split("\n").index(whole)] == 1


def test_tables_and_columns_are_not_joined() -> None:
    columns = "              total        used        free      shared  buff/cache   available"
    text = f"$ free -m\n{columns}\nMem:           15890         612       15040           2         238       15021\n"
    assert open_text(text).documents()[0].text == text
    assert "Tesla T4" in open_text(samples.TABLE_535).run("nvidia-smi").stdout
    assert open_text(samples.TABLE_535).documents()[0].text.count("\n") == samples.TABLE_535.count("\n")


def test_a_query_of_80_columns_is_not_joined_with_its_answer() -> None:
    text = "$ nvidia-smi --query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader\nDisabled, Enabled\n"
    assert len(text.split("\n")[0]) == 80
    assert open_text(text).documents()[0].text == text


def test_a_one_line_program_of_80_columns_is_not_joined_with_its_output() -> None:
    text = "$ python3 -c 'import torch; print(torch.__version__, torch.cuda.is_available())'\n2.8.0+cu128 True\n"
    assert len(text.split("\n")[0]) == 80
    assert open_text(text).documents()[0].text == text


def test_a_command_that_goes_on_in_the_next_line() -> None:
    source = open_text(f"$ nvidia-smi --query-gpu=name \\\n>   --format=csv\nname\nTesla T4\n$ uname -r\n{KERNEL}\n")
    assert source.run(*known.NVIDIA_SMI_QUERY_GPU).stdout == "name\nTesla T4"


def test_several_commands_in_one_line() -> None:
    source = open_text(f"$ uname -r; mokutil --sb-state\n{KERNEL}\nSecureBoot enabled\n")
    assert source.run("uname", "-r").stdout == KERNEL
    assert source.run(*known.MOKUTIL_SB_STATE).stdout == "SecureBoot enabled"


def test_a_long_paste_is_quick() -> None:
    import time

    text = (samples.TABLE_535 + samples.LSPCI + samples.LOGS["dmesg"] + "$ uname -r\n6.8.0\n") * 8
    started = time.perf_counter()
    open_text(text)
    assert time.perf_counter() - started < 1.0


def test_several_filters_of_one_output_are_one_answer() -> None:
    source = open_text(
        "$ lsmod | grep nouveau\nnouveau  1716224  1\n$ lsmod | grep nvidia\n"
        f"$ dmesg | grep NVRM\n[   12.300000] {samples.XID}\n$ dmesg | grep -i aer | head -1\n[   13.000000] pcieport 0000:00:01.0: AER: x\n"
        "$ grep -i kernel /etc/modprobe.d/a.conf\nkernel\n$ grep -i other /etc/modprobe.d/a.conf\n"
    )
    modules = source.run("lsmod")
    assert (modules.stdout, modules.filtered_by, modules.truncated) == (
        "nouveau  1716224  1",
        "nouveau|nvidia",
        False,
    )
    log = source.run("dmesg")
    assert log.line_numbers == [5, 7]
    assert (log.filtered_by, log.truncated) == ("NVRM", False)  # the other one was cut, so it shows all of nothing
    assert source.read("/etc/modprobe.d/a.conf").filtered_by == "kernel|other"


def test_of_two_whole_outputs_the_later_counts() -> None:
    text = "$ dkms status\nnvidia/535.1: added\n$ sudo dkms autoinstall\n$ dkms status\nnvidia/535.1, 6.8.0, x86_64: installed\n"
    assert open_text(text).run("dkms", "status").stdout == "nvidia/535.1, 6.8.0, x86_64: installed"
    whole_and_part = "$ lsmod\nModule Size Used by\nnvidia 1 0\n$ lsmod | grep nouveau\n"
    assert open_text(whole_and_part).run("lsmod").filtered_by is None


def test_sections_of_the_query_come_under_their_gpu() -> None:
    head = samples.QUERY.split("GPU 0000")[0].replace(
        "Attached GPUs                             : 1", "Attached GPUs : 2"
    )
    ecc = "".join(f"GPU 00000000:0{i}:00.0\n    ECC Mode\n        Current : Enabled\n" for i in (1, 2))
    heat = "".join(f"GPU 00000000:0{i}:00.0\n    Temperature\n        GPU Current Temp : 3{i} C\n" for i in (1, 2))
    text = f"$ nvidia-smi -q -d ECC\n{head}{ecc}$ nvidia-smi -q -d TEMPERATURE\n{head}{heat}"
    answer = open_text(text).run(*known.NVIDIA_SMI_Q)
    first, second = answer.stdout.split("GPU 00000000:0")[1:]
    assert "ECC Mode" in first and "31 C" in first and "32 C" not in first  # noqa: PT018
    assert "ECC Mode" in second and "32 C" in second  # noqa: PT018
    lines = text.split("\n")
    assert [lines[n - 1] for n in answer.line_numbers or []] == answer.stdout.split("\n")


def test_two_queries_of_the_same_gpus_are_one_table() -> None:
    query = "$ nvidia-smi --query-gpu={} --format=csv,noheader\n"
    source = open_text(
        query.format("index,name") + "0, T4\n1, T4\n" + query.format("index,pstate") + "0, P0\n1, P8\n"
    )
    assert source.run(*known.NVIDIA_SMI_QUERY_GPU).stdout == "index, name, pstate\n0, T4, P0\n1, T4, P8"


@pytest.mark.parametrize(
    "enter",
    ["docker exec -it web bash", "sudo docker run -it --rm --gpus all image", "kubectl exec -it pod-1 -- bash"],
)
def test_what_is_typed_in_an_entered_container_is_elsewhere(enter: str) -> None:
    source = open_text(
        f"alice@node7:~$ {enter}\nroot@web:/# nvidia-smi\nFailed to initialize NVML: Unknown Error\nroot@web:/# exit\nexit\n"
        f"alice@node7:~$ nvidia-smi -L\n{samples.LISTING}"
    )
    assert source.run("nvidia-smi").status is Status.NOT_RECORDED
    assert "Unknown Error" in source.run("docker-run", "nvidia-smi").stdout
    assert source.run("nvidia-smi", "-L").status is Status.OK


def test_a_container_that_did_not_start_was_not_entered() -> None:
    source = open_text(
        "$ docker run -it --gpus all image bash\ndocker: Error response from daemon: x\n# uname -r\n6.8.0\n"
    )
    assert source.run("uname", "-r").stdout == "6.8.0"


def test_an_issue_form_with_headings() -> None:
    text = "## nvidia-smi\n\n```\nNo devices were found\n```\n\n## dmesg\n\n```\n[    1.000000] NVRM: hi\n```\n\n## Docker version\n\n```\n"
    source = open_text(text + "Docker version 24.0.7, build afdd53b\n```\n")
    assert source.run("nvidia-smi").stdout == "No devices were found"
    assert source.run("dmesg").stdout == "[    1.000000] NVRM: hi"
    assert "24.0.7" in source.run(*known.DOCKER_VERSION).stdout


def test_a_web_pages_source_and_numbered_lines() -> None:
    source = open_text("<pre><code>$ uname -r\n6.8.0\n$ nvidia-smi\nit couldn&#39;t\n</code></pre>")
    assert source.run("uname", "-r").stdout == "6.8.0"
    assert "couldn't" in source.run("nvidia-smi").stdout
    assert open_text("  1  $ uname -r\n  2  6.8.0\n  3  $ mokutil --sb-state\n").run("uname", "-r").stdout == "6.8.0"


def test_a_bracket_before_a_word_is_no_colour_code() -> None:
    text = "pci 0000:0a:00.0: BAR 1: no space for [mem size 0x1000000000 64bit pref]\n[01;31mred [m and plain"
    assert "[mem size" in open_text(text).documents()[0].text
    assert "red  and plain" in open_text(text).documents()[0].text


TWO_NODES = """\
root@gpu-01:~# uname -r
5.15.0-91-generic
root@gpu-01:~# nvidia-smi -L
GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5bd1a5c1-0000-0000-0000-000000000000)
root@gpu-02.example.org:~# uname -r
{kernel}
root@gpu-02.example.org:~# nvidia-smi
{said}
"""
FAILED = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."


@pytest.mark.parametrize(
    ("said", "kernel"),
    [(FAILED, KERNEL), ("| NVIDIA-SMI 550.90.07  Driver Version: 550.90.07 |", "5.15.0-91-generic")],
)
def test_facts_are_those_of_one_node(said: str, kernel: str) -> None:
    """Of the node where something failed, else of the first of those with most commands; every node's words are searched."""
    source = open_text(TWO_NODES.format(said=said, kernel=KERNEL))
    assert source.run(*known.UNAME_R).stdout.strip() == kernel
    assert said in source.documents()[0].text
    listed = source.run("nvidia-smi", "-L").status
    assert (listed is Status.OK) is (said != FAILED)


def test_a_pod_beside_its_node_is_no_second_node() -> None:
    text = "root@gpu-01:~# uname -r\n6.8.0-49-generic\nroot@train-worker-0:/# nvidia-smi\nbash: nvidia-smi: command not found\n"
    assert open_text(text).run(*known.UNAME_R).stdout.strip() == KERNEL
