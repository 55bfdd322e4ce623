"""`nvidia-smi -q` and `nvidia-smi -q -x`: versions in the head and one block a GPU.

    Driver Version                            : 535.161.08
    CUDA Version                              : 12.2
    Attached GPUs                             : 8
    GPU 00000000:19:00.0
        Product Name                          : NVIDIA H100 80GB HBM3

`-q -d SECTION` prints the same head with one section a GPU; a pasted piece may lack the head or the GPU's line.
"""

from __future__ import annotations

from gpudoctor.facts import Evidence, Gpu
from gpudoctor.probes import smi_values as values
from gpudoctor.probes.smi_gpu import gpu_of, quote
from gpudoctor.probes.smi_report import SmiReport, refused_gpu
from gpudoctor.probes.smi_tree import Node, gpu_nodes, parse_q, parse_xml

# A GPU that the driver no longer answers for has one such line (XML: <error_string>) in place of its block.
_REFUSED = "unable to determine the "
_HEAD = frozenset(
    {"driver version", "kmd version", "cuda version", "cuda umd version", "timestamp", "attached gpus", "gpu"}
)


def parse_q_report(text: str, source: str = "nvidia-smi -q") -> SmiReport:
    """The facts of `nvidia-smi -q`, whole or in part."""
    root = parse_q(text)
    nodes = gpu_nodes(root)
    if not nodes:
        nodes = _implicit(root)
    return _report(root, nodes, source)


def parse_xml_report(text: str, source: str = "nvidia-smi -q -x") -> SmiReport:
    """The facts of `nvidia-smi -q -x`, also of a document that ends early."""
    root = parse_xml(text)
    return _report(root.child("nvidia_smi_log") or root, gpu_nodes(root), source)


def _implicit(root: Node) -> list[Node]:
    """Fields that stand without a GPU's line above them (`-q -d ECC | grep ...`) are those of one GPU."""
    loose = [child for child in root.children if child.name not in _HEAD]
    if not loose:
        return []
    gpu = Node(name="gpu", children=loose)
    facts = gpu_of(gpu, None, "")
    known = [name for name in facts.__struct_fields__ if name not in ("evidence", "lost", "errors", "index")]
    return [gpu] if any(getattr(facts, name) is not None for name in known) or facts.errors else []


def _report(log: Node, nodes: list[Node], source: str) -> SmiReport:
    evidence: dict[str, Evidence] = {}
    versions: dict[str, str] = {}
    for field, names in (
        ("driver_version", ("driver_version", "kmd_version", "driver version", "kmd version")),
        ("cuda_version", ("cuda_version", "cuda_umd_version", "cuda version", "cuda umd version")),
    ):
        node = log.child(*names)
        if node is not None and (version := values.text(node.value)):
            versions[field] = version
            evidence[field] = quote(source, node)
    attached = log.child("attached_gpus", "attached gpus")
    count = values.number(attached.value) if attached is not None else None
    if attached is not None and count is not None:
        evidence["attached_gpus"] = quote(source, attached)
    blocks = [node for node in log.children if any(node is one for one in nodes) or _refusal(node)] if nodes else []
    blocks = blocks or nodes
    whole = count == len(blocks)  # else a GPU's place is not its index: `-i N`, or a shortened paste
    gpus = [_gpu(node, index if whole else None, source) for index, node in enumerate(blocks)]
    return SmiReport(gpus=gpus or None, attached_gpus=count, evidence=evidence, **versions)


def _refusal(node: Node) -> str | None:
    """The words that stand in place of a lost GPU's block: "GPU is lost"."""
    if node.name == "error_string" and node.value.lower().startswith(_REFUSED):
        return node.value.rpartition(":")[2].strip(" .")
    return node.value.strip(" .") if node.name.startswith(_REFUSED) else None


def _gpu(node: Node, index: int | None, source: str) -> Gpu:
    words = _refusal(node)
    if words is None:
        return gpu_of(node, index, source)
    return refused_gpu(index, values.fault_of(words.partition(".")[0]) or "UNKNOWN", quote(source, node))
