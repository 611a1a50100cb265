"""The base of every config model, and validation errors that a person can act on."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from foreword.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic_core import ErrorDetails

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
            raise _config_error(problem, root=root, model=cls) from None


def _worst(problems: list[ErrorDetails]) -> ErrorDetails:
    """Unknown keys first: a mistyped key is the reason for a missing one."""
    return min(problems, key=lambda problem: problem["type"] != "extra_forbidden")


def _config_error(problem: ErrorDetails, *, root: str, model: type[BaseModel]) -> ConfigError:
    parts, known = _walk(model, problem["loc"], unknown_key=problem["type"] == "extra_forbidden")
    path = ".".join([root, *parts])
    match problem["type"]:
        case "extra_forbidden":
            return ConfigError(f"{path}: unknown key", field=path, advice=_nearest(parts[-1], known))
        case "missing":
            return ConfigError(f"{path}: required, but not given", field=path)
        case "union_tag_not_found" | "union_tag_invalid" as kind:
            path = ".".join([path, problem["ctx"]["discriminator"].strip("'")])
            if kind == "union_tag_not_found":
                return ConfigError(f"{path}: required, but not given", field=path)
            reason = f"must be one of {problem['ctx']['expected_tags']}"
            return ConfigError(f"{path}: {reason}{_shown(problem['ctx']['tag'])}", field=path)
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


def _walk(model: type[BaseModel], location: tuple[str | int, ...], *, unknown_key: bool) -> tuple[list[str], list[str]]:
    """The keys of a location as a person wrote them, and the keys that are known at its end.

    Validation also puts the names of union branches into a location; they are no fields and are left out.
    """
    models, parts = [model], []
    for index, part in enumerate(location):
        last = unknown_key and index == len(location) - 1
        holders = [holder for holder in models if part in holder.model_fields]
        if isinstance(part, int) or last:
            parts.append(str(part) if str(part).isprintable() else repr(part))
        elif holders:
            parts.append(part)
            models = [nested for holder in holders for nested in _models_in(holder.model_fields[part].annotation)]
        else:
            models = [holder for holder in models if _is_variant(holder, part)] or models
    return parts, sorted({name for holder in models for name in holder.model_fields})


def _is_variant(model: type[BaseModel], tag: str) -> bool:
    return any(get_args(field.annotation) == (tag,) for field in model.model_fields.values())


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]
