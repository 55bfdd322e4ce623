"""The tables of GPU models and driver branches."""

from __future__ import annotations

import re

import pytest

from gpudoctor.knowledge import driver_branches, gpus


def test_every_model_is_well_formed():
    slugs = [model.slug for model in gpus.models()]
    assert len(slugs) == len(set(slugs)) > 100
    for model in gpus.models():
        assert model.names, model.slug
        assert model.architecture in gpus.ARCHITECTURES, model.slug
        assert all(re.fullmatch(r"10de:[0-9a-f]{4}", pci_id) for pci_id in model.pci_ids), model.slug
        assert model.open_module_support in (None, "required", "supported", "unsupported"), model.slug


def test_models_agree_with_their_architecture():
    """A model may need more than its architecture does (Grace Hopper's open modules), never less."""
    order = ("unsupported", "supported", "required")
    for model in gpus.models():
        support = gpus.ARCHITECTURES[model.architecture]
        if model.segment in ("jetson", "soc"):
            continue
        assert model.last_driver_branch == support.last_driver_branch, model.slug
        assert order.index(model.open_module_support) >= order.index(support.open_module_support), model.slug


def test_ids_lie_in_the_block_of_their_architecture():
    for model in gpus.models():
        for pci_id in model.pci_ids:
            number = int(pci_id[5:], 16)
            blocks = [name for first, last, name in gpus._ID_BLOCKS if first <= number <= last]
            assert blocks in ([], [model.architecture]), (model.slug, pci_id)


@pytest.mark.parametrize(
    ("pci_id", "product", "capability"),
    [
        ("10de:20b2", "NVIDIA A100-SXM4-80GB", "8.0"),
        ("10DE:2330", "NVIDIA H100 80GB HBM3", "9.0"),
        ("10de:1eb8", "Tesla T4", "7.5"),
    ],
)
def test_known_ids(pci_id, product, capability):
    model = gpus.by_pci_id(pci_id)
    assert model is not None
    assert (model.product, model.compute_capability) == (product, capability)


@pytest.mark.parametrize("pci_id", [None, "", "10de:ffff", "8086:20b2", "garbage"])
def test_unknown_ids_are_not_guessed(pci_id):
    assert gpus.by_pci_id(pci_id) is None
    assert gpus.product_name(pci_id) is None


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("GA102GL [A10]", "ampere"),
        ("AD102 [GeForce RTX 4090]", "ada"),
        ("GP104M", "pascal"),
        ("GB10B", "blackwell"),
        ("TU117GLM [Quadro T1000 Mobile]", "turing"),
        ("GT218 [GeForce 210]", "tesla"),
        ("Unheard-of thing", None),
        ("", None),
        (None, None),
    ],
)
def test_architecture_by_chip(name, architecture):
    assert gpus.architecture_of_chip(name) == architecture


@pytest.mark.parametrize(
    ("name", "slug", "branch"),
    [
        ("NVIDIA Corporation GA102GL [A10G]", "a10g", 455),
        ("NVIDIA Corporation GA102 [GeForce RTX 9999]", None, 455),
        ("NVIDIA Corporation Device 2900", None, None),
        (None, None, None),
    ],
)
def test_models_that_lspci_names_without_ids(name, slug, branch):
    model = gpus.by_lspci_name(name)
    assert (model and model.slug) == slug
    assert gpus.first_branch_of_chip(name) == branch


def test_driver_branches():
    numbers = [branch.branch for branch in driver_branches.branches()]
    assert numbers == sorted(numbers)
    branch = driver_branches.by_number(535)
    assert branch is not None
    assert (branch.cuda, branch.kind) == ("12.2", "LTSB")
    assert driver_branches.by_number(None) is None
    assert [driver_branches.branch_of(v) for v in ("535.183.01", "390.157", "x.1", "", None)] == [
        535,
        390,
        None,
        None,
        None,
    ]
