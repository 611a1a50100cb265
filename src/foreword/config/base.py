"""The base of every config model, and validation errors that a person can act on."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from foreword.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic_core import ErrorDetails

# Discriminated unions put the variant's name into an error's path; a person did not write it there.
_TAGS = frozenset({"fixed", "explicit", "truncated_normal", "histogram", "empirical"})
_SHOWN_CHARS = 60


class ConfigModel(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def parse(cls, data: Mapping[str, Any], *, root: str) -> Self:
        """Validate a mapping; the first problem becomes a ``ConfigError`` that names its path below ``root``."""
        try:
            return cls.model_validate(data)
        except ValidationError as failure:
            problem = _worst(failure.errors(include_url=False))
            raise _config_error(problem, root=root, known=_known_keys(cls, problem["loc"])) from None


def _worst(problems: list[ErrorDetails]) -> ErrorDetails:
    """Unknown keys first: a mistyped key is the reason for a missing one."""
    return min(problems, key=lambda problem: problem["type"] != "extra_forbidden")


def _config_error(problem: ErrorDetails, *, root: str, known: Iterable[str]) -> ConfigError:
    path = ".".join([root, *(str(part) for part in problem["loc"] if part not in _TAGS)])
    match problem["type"]:
        case "extra_forbidden":
            return ConfigError(f"{path}: unknown key", field=path, advice=_nearest(str(problem["loc"][-1]), known))
        case "missing":
            return ConfigError(f"{path}: required, but not given", field=path)
        case "union_tag_not_found":
            return ConfigError(f"{path}.mode: required, but not given", field=f"{path}.mode", advice=problem["msg"])
        case _:
            reason = problem["msg"].removeprefix("Value error, ")
            return ConfigError(f"{path}: {reason}{_shown(problem['input'])}", field=path)


def _shown(value: object) -> str:
    """The value as it was read; a whole section is not repeated."""
    if isinstance(value, dict | BaseModel):
        return ""
    text = repr(value)
    return f", got {text if len(text) <= _SHOWN_CHARS else f'{text[:_SHOWN_CHARS]}...'}"


def _nearest(key: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(names)}"


def _known_keys(model: type[BaseModel], location: tuple[str | int, ...]) -> list[str]:
    """Keys that the model at a location accepts, found by walking the field annotations."""
    candidates: list[type[BaseModel]] = [model]
    for part in location[:-1]:
        if isinstance(part, int):
            continue
        if part in _TAGS:
            candidates = [
                found for found in candidates if str(found.model_fields["mode"].annotation).find(f"'{part}'") >= 0
            ] or candidates
            continue
        candidates = [
            nested
            for candidate in candidates
            if part in candidate.model_fields
            for nested in _models_in(candidate.model_fields[part].annotation)
        ]
    return sorted({name for candidate in candidates for name in candidate.model_fields})


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in getattr(annotation, "__args__", ()) for model in _models_in(argument)]
