"""How programs write a CUDA error as a number only: `CUDA error 46`, `cuInit failed with error code 214`, `cudaSuccess (77 vs. 0)`.

Numbers are those of cudaError_t and CUresult (https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

_FIRST_TELLING = 30  # a lower number after `returned` may as well be a count
_ELSEWHERE = {127, 200, 300, 301, 302, 303, 304, 400, 401, 402, 500}  # exit codes, and what web servers answer

_BETWEEN = r"[\s_:=(,]{0,3}"
_MARK = r"[\s:=#()\[,'\"]{1,6}"
_MORE = rf"(?:{_BETWEEN}(?:code|number|no\.|value|status|result|with|of|is|was|returned|error|driver|runtime|cudaerror(?:_t)?|curesult))*"
_END = r"(?:[^\w.%]|\.\s|\.?$)"
_END_OF_LOW = (
    r"(?:\s*(?:[^\w\s.%]|\.\s|\.?$)"
    r"|\s+(?:at|in|on|from|with|while|when|during|for|by|calling|returned|occurred|file|line|detected)\b)"
)
_CUDA = r"\b(?:lib)?cu(?:da|dart)(?:[ _-]?(?:runtime|driver|api|rt|kernel|launch|call|init(?:iali[sz]ation)?))*[ _-]?"
_DRIVER_CALL = "Init|Driver|Device|Ctx|Module|Library|Kernel|Mem|Pointer|Launch|Stream|Event|Func|Link|Ipc|Array|Graph(?:Exec|Inst|Launch)"
_NO_COUNT = r"\b(?-i:cuInit|cudaMalloc|cuMemAlloc|cu(?:da)?Ctx|cu(?:da)?Stream|cudaSetDevice|cudaDeviceSynchronize|cuDevicePrimaryCtxRetain|cu(?:da)?Launch)\w*"
_FUNCTION = rf"\b(?-i:cuda[A-Z]|cu(?:{_DRIVER_CALL}))\w*"
# Each of the wordings has one of these, in small letters.
CUDA_WORDS = (
    "cuda", "curesult", "cuinit", "cudriver", "cudevice", "cuctx", "cumodule", "culibrary", "cukernel", "cumem", "cupointer", "culaunch", "custream", "cuevent",
    "cufunc", "culink", "cuipc", "cuarray", "cugraph", "cugeterror", "call to cu", "api error", "gpu", "kernel launch",
)  # fmt: skip

# And one of these.
_ERROR_WORDS = (
    b"err", b"fail", b"exception", b"stat", b"curesult", b"result", b"ret", b"cuda runtime (", b"init cuda", b"initialize cuda", b"initialise cuda", b"->",
    b"code:", b"cudasuccess", b"call to cu",
)  # fmt: skip
_DIGITS = frozenset(b"0123456789")


def may_tell_number(line: bytes) -> bool:
    """Whether a line, in small letters, has a number and a word without which it gives none as an error."""
    for word in _ERROR_WORDS:
        if word in line:
            return not _DIGITS.isdisjoint(line)
    return False


def wordings(numbers: Iterable[int]) -> str:
    """A message pattern for a line that gives one of these numbers as the error of a CUDA call."""
    told = sorted(set(numbers))
    ways = [_ways(_any(some), end) for some, end in ((_low(told), _END_OF_LOW), (_high(told), _END)) if some]
    high = _high(told)
    unmistakable = [one for one in high if one not in _ELSEWHERE]
    if high:
        ways.append(_returned(_any(high)))
    if unmistakable:
        ways += _loose(_any(unmistakable))
    return "|".join(ways)


@cache
def any_wording() -> str:
    """A pattern for a line that gives any number in one of the wordings: it passes over what no single one would match."""
    number = r"(?:\d{1,6}|0x[0-9a-f]{1,6})"
    return "|".join([_ways(number, _END), _returned(number), *_loose(number)])


def _returned(number: str) -> str:
    return rf"{_FUNCTION}.{{0,40}}?\b(?:returned|returns|status|result|ret)\b{_MORE}{_MARK}{number}{_END}"


def _loose(number: str) -> list[str]:
    return [
        rf"\b(?:cuda|gpus?|kernel launch)\b.{{0,60}}?\berror(?: code| number)?{_MARK}{number}{_END}",
        rf"\berror(?: code| number)?{_MARK}{number}\)? (?:from|in|by|on|at|while|when|calling|during) (?:\w+ ){{0,3}}cu(?:da|dart)",
    ]


def _low(numbers: list[int]) -> list[int]:
    return [one for one in numbers if one < _FIRST_TELLING]


def _high(numbers: list[int]) -> list[int]:
    return [one for one in numbers if one >= _FIRST_TELLING]


def _any(numbers: list[int]) -> str:
    return rf"(?:0*(?:{'|'.join(map(str, numbers))})|0x0*(?:{'|'.join(f'{one:x}' for one in numbers)}))"


def _ways(number: str, end: str) -> str:
    return "|".join(
        [
            rf"{_CUDA}(?:error|failure|failed|exception|status|err)(?:_t|_enum)?{_MORE}{_MARK}{number}{end}",
            rf"\bcuresult{_MARK}{number}{end}",
            rf"\b(?:driver|runtime) api error{_MARK}{number}{end}",
            rf"\bcuda runtime \({number}\)|\binit(?:iali[sz]e)? cuda{_MARK}{number}{end}|\bcuda ret{_MARK}{number}{end}",
            rf"{_NO_COUNT}(?:\(.*?\))? ?-> ?{number}{end}",
            rf"{_FUNCTION}.{{0,40}}?\b(?:error|err|failed|failure)\b{_MORE}{_MARK}{number}{end}",
            rf"{_NO_COUNT}.{{0,40}}?\b(?:returned|returns|result|ret)\b{_MORE}{_MARK}{number}{end}",
            rf"\bcuda[A-Z]\w+\(.*\bcode: {number}, reason",
            rf"cudaSuccess \({number} vs|cudaSuccess \(\w+ vs\.? {number}\)",
            rf"\bcuda(?:Get|PeekAt)?LastError{_MARK}{number}{end}",
            rf"\[{number}\] Call to cu|\bcu(?:da)?GetError(?:String|Name){_MARK}{number}\b",
        ]
    )
