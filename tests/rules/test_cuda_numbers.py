"""Every number of cudaError_t that CUDA documents has an answer, as a number alone, in more than one wording."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpudoctor.knowledge.cuda_errors import CUDA_WORDS, wordings
from tests.rules.reading import explain

DOCUMENTED = [
    *range(1, 10),
    *(12, 13, *range(16, 29), 31, 32, 34, 35, 36, 37, 43, 44, 45, 46, 49, 52, 53, *range(65, 70), 98),
    *(100, 101, 102, 103, 127, 200, 201, *range(205, 227), *range(300, 305), 400, 401, 402, 500, 600),
    *(*range(700, 706), *range(708, 722), *range(800, 813), *range(900, 917), 999),
]


@pytest.mark.parametrize("number", DOCUMENTED)
def test_a_number_alone_has_an_answer(number: int) -> None:
    firsts = [
        next((finding.rule for finding in explain(text).findings), None)
        for text in (
            f"worker 2: CUDA error {number}\n",
            f"main: cuStreamSynchronize failed with error code {number}\n",
        )
    ]
    assert firsts[0] is not None
    assert firsts[0] == firsts[1]


@pytest.mark.parametrize("numbers", [[2], [46], [700, 719], [999]])
@given(data=st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_each_way_to_write_a_number_has_a_word_that_lines_are_found_by(
    numbers: list[int], data: st.DataObject
) -> None:
    line = data.draw(st.from_regex(re.compile(wordings(numbers), re.ASCII), fullmatch=True)).lower()
    assert any(word in line for word in CUDA_WORDS)
    assert any(form in line for number in numbers for form in (f"{number}", f"{number:x}"))
