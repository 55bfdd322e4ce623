import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

SHIM = Path(__file__).parents[4] / "shim.h"
FLAGS = [
    "-std=c++20",
    "-O1",
    "-shared",
    "-fPIC",
    "-pthread",
    "-Wall",
    "-Wno-unknown-pragmas",
    "-Werror",
    "-include",
    str(SHIM),
]
_programs = {}


class NVRTCError(RuntimeError):
    def __init__(self, status):
        self.status = status
        super().__init__(f"NVRTC_ERROR_COMPILATION ({status})")


def getVersion():
    return 12, 9


def getSupportedArchs():
    return [50, 60, 70, 75, 80, 86, 89, 90, 100, 120]


def createProgram(src, name, headers, include_names):
    assert (type(src), type(name)) == (str, str)
    number = len(_programs) + 1
    _programs[number] = {"source": src, "log": "", "output": b""}
    return number


def compileProgram(program, options):
    entry = _programs[program]
    defines = [option for option in options if option.startswith("-D")]
    key = hashlib.sha256("\0".join([entry["source"], SHIM.read_text(), *FLAGS, *defines]).encode()).hexdigest()[:20]
    folder = Path(tempfile.gettempdir()) / f"gpudoctor-testbed-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"kernels-{key}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            source = Path(scratch) / "kernels.cpp"
            source.write_text(entry["source"])
            made = Path(scratch) / library.name
            done = subprocess.run(["g++", *FLAGS, *defines, "-o", made, source], capture_output=True, text=True)
            if done.returncode:
                entry["log"] = done.stderr
                raise NVRTCError(6)
            library.with_suffix(".together").write_text("\n".join(with_barriers(entry["source"])))
            made.replace(library)
    entry["output"] = str(library).encode()


def with_barriers(source):
    """The names of the kernels that have barriers."""
    pieces = re.split(r'extern "C" __global__ void', source)
    return [re.search(r"(\w+)\((?!\w+\)\s+\w+\()", piece)[1] for piece in pieces[1:] if "__syncthreads" in piece]


def together(library, name):
    """Whether kernel `name` of a compiled library has barriers."""
    return name in Path(library).with_suffix(".together").read_text().split()


def getProgramLog(program):
    return _programs[program]["log"]


def getCUBIN(program):
    return _programs[program]["output"]


getPTX = getCUBIN


def destroyProgram(program):
    del _programs[program]
