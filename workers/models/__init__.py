"""Models: one module each, `workers/models/<name>.py`, named by `model.provider`. A module offers `open_model`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

from config.settings import ModelSettings

StopReason = Literal[
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
]


@dataclass(frozen=True, slots=True)
class Occasion:
    """What a call is made for. Nothing of it is sent."""

    conversation: str = ""
    """Its id; empty: no conversation's."""
    turn: str = ""
    branch: str = ""
    step: int = 0
    """0: no step of the turn's own, such as a summary."""
    purpose: str = "answer"
    """A word: `answer`, `summary`."""
    keep_s: int | None = None
    """The longest that a record of it may be kept; None: as the settings say."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(slots=True)
class Meter:
    """What a call has cost so far: it costs something also where nobody gets its answer."""

    usage: Usage | None = None
    """None: the service has not said anything."""
    model: str = ""
    characters: int = 0
    """Of all that came."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call of the Messages API, as the wire has it (snake_case keys of the public API)."""

    model: str
    system: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    max_tokens: int
    occasion: Occasion = Occasion()
    meter: Meter = field(default_factory=Meter, compare=False, repr=False)
    """Read by whoever asks, once the call is over in any way. Nothing of it is sent."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole answer: content blocks as the API gives them, ready to be sent back in the next request."""

    content: list[dict[str, Any]]
    stop_reason: StopReason
    usage: Usage
    model: str
    bad_inputs: dict[str, str] = field(default_factory=dict)
    """Ids of tool_use blocks whose arguments could not be read, and why: such a call must not run. Its `input` is {}."""
    reckoned: bool = False
    """The service did not count (all of) its tokens: we did, by what was sent and what came."""

    @property
    def calls_tools(self) -> bool:
        return any(block.get("type") == "tool_use" for block in self.content)


def text_of(answer: Answer) -> str:
    """Its text blocks, joined."""
    return "".join(block.get("text", "") for block in answer.content if block.get("type") == "text")


class ModelError(Exception):
    """The model gave no answer.

    `passing`: trying again may help. `retry_after_s`: what the provider asked for. `detail`: for the operator's log
    (status, provider's reason, request id), without secrets.
    """

    def __init__(self, detail: str, *, passing: bool, retry_after_s: float | None = None, kind: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.passing = passing
        self.retry_after_s = retry_after_s
        self.kind = kind
        """`unauthorized`, `not_found`, `bad_request`, `picture` (it refuses one), `context_too_long`, `rate_limited`, `overloaded`, `unreachable`
        (no connection), `stalled` (nothing came in time), `broken` (what came was cut or is no answer)."""


class Model(Protocol):
    """A model that answers in a stream."""

    label: str | None
    """Shown to people wherever it speaks; the real model has none."""

    def stream(self, request: Request) -> AsyncIterator[TextDelta | Answer]:
        """Pieces of text, at last exactly one `Answer`. Raises `ModelError`."""
        ...

    async def check(self) -> str:
        """One cheap call for `doctor`: a sentence about the model. Raises `ModelError`."""
        ...

    async def close(self) -> None:
        """Give back connections."""
        ...


async def whole_answer(model: Model, request: Request) -> Answer:
    """Its answer, whole. Raises `ModelError`."""
    async for piece in model.stream(request):
        if isinstance(piece, Answer):
            return piece
    raise ModelError("the stream ended without an answer", passing=True, kind="broken")


def load_model(settings: ModelSettings) -> Model:
    """The model of `model.provider`: the module of that name. Raises `LookupError` with the names that there are."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    if settings.provider not in names:
        raise LookupError(f"model.provider: there is no model {settings.provider!r}; there are: {', '.join(names)}")
    return cast("Model", importlib.import_module(f"{__name__}.{settings.provider}").open_model(settings))
