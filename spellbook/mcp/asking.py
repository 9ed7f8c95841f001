"""Ask the person before a tool erases, where the client can show a question."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from pydantic import BaseModel, Field

from spellbook.text.quoting import exact

_MOST_NAMED = 200


class Confirm(BaseModel):
    """The answer of the person."""

    really: bool = Field(description="Yes, delete it.")


def can_ask(ctx: Context[Any, Any]) -> bool:
    """Return whether the person can be asked."""
    capabilities = ctx.client_capabilities
    asking = capabilities.elicitation if capabilities else None
    # A bare `elicitation: {}` means forms; one that names URLs alone cannot show the question.
    return asking is not None and (asking.form is not None or asking.url is None)


def _question(ctx: Context[Any, Any], name: str, *, topic: bool, hard: bool) -> Elicit[Confirm] | Confirm:
    if not name or not (topic or hard) or not can_ask(ctx):
        return Confirm(really=True)
    what = f"every note of the topic {exact(name[:_MOST_NAMED])}" if topic else exact(name[:_MOST_NAMED])
    how = "for good, without trash and without undo" if hard else "(they go to the trash)"
    return Elicit(f"Delete {what} {how}?", Confirm)


def _before_erase(
    ctx: Context[Any, Any], chunk_id: str, topic_id: str, hard: bool, dry_run: bool | None
) -> Elicit[Confirm] | Confirm:
    name = "" if dry_run or (chunk_id and topic_id) else topic_id or chunk_id  # of both the tool wants one
    return _question(ctx, name, topic=bool(topic_id), hard=hard)


def _before_forget(ctx: Context[Any, Any], memory_id: str, hard: bool) -> Elicit[Confirm] | Confirm:
    return _question(ctx, memory_id, topic=False, hard=hard)


Erasing = Annotated[ElicitationResult[Confirm], Resolve(_before_erase)]
Forgetting = Annotated[ElicitationResult[Confirm], Resolve(_before_forget)]

DECLINED = "The person did not agree; nothing was erased."


def agreed(answer: ElicitationResult[Confirm]) -> bool:
    """Return whether the person said yes, or could not be asked."""
    return isinstance(answer, AcceptedElicitation) and answer.data.really
