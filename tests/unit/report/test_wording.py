from __future__ import annotations

import inspect
import re

from foreword.report import causes, notices
from foreword.report.document import Cause
from foreword.report.wording import ADVICE, CAUSES, EVIDENCE, NOTICES


def test_every_code_has_a_sentence_and_every_sentence_a_code() -> None:
    """What the report can say and what it has words for are the same set."""
    said = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)*)"', inspect.getsource(notices)))
    evidence = set(re.findall(r'"([a-z]+(?:_[a-z]+)*)"', inspect.getsource(causes)))

    assert said == set(NOTICES)
    assert evidence == set(EVIDENCE)
    assert set(ADVICE) <= set(NOTICES)
    assert set(CAUSES) == set(Cause)
