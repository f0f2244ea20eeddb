"""Requests to the client's model (sampling) over streamable HTTP, on the stream of the call."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError

from holdfast.features.llm.sampling import SamplingRequest
from holdfast.kernel.errors import ModelFailed, OperationCancelled
from holdfast.surfaces.mcp.client_requests import (
    CLIENT_GONE,
    NOT_IN_THIS_REVISION,
    NOT_OFFERED,
    declined_error,
    late_error,
)
from holdfast.surfaces.mcp.protocol import STATELESS

Context = ServerRequestContext[Any, Any]
MARGIN_SECONDS = 1.0
"""Seconds the waiting thread waits longer than the event loop, which reports the timeout to the client."""


class HttpClientRequests:
    """Ask the client of one request, from the thread that runs it."""

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop
        self._waiting: list[Future[types.CreateMessageResult]] = []

    def sampler(self) -> SamplingRequest | str:
        """Return the function that asks the client's model, or the reason why it cannot be asked."""
        if self._context.protocol_version in STATELESS:
            return NOT_IN_THIS_REVISION
        able = self._context.session.client_capabilities
        return self._ask if able is not None and able.sampling is not None else NOT_OFFERED

    def _ask(self, params: dict[str, Any], seconds: float) -> Mapping[str, Any]:
        answer = asyncio.run_coroutine_threadsafe(self._send_request(params, seconds), self._loop)
        self._waiting.append(answer)
        try:
            return answer.result(seconds + MARGIN_SECONDS).model_dump()
        except CancelledError:
            raise OperationCancelled from None
        except NoBackChannelError:
            raise ModelFailed(CLIENT_GONE, unpaid=True) from None
        except MCPError as error:
            raise self._to_model_error(error.error.code, seconds) from None
        except (ValidationError, ValueError):
            what = "The connected agent's answer is not a message."
            raise ModelFailed(what, answered=True) from None
        except TimeoutError:
            raise late_error(seconds) from None

    async def _send_request(self, params: dict[str, Any], seconds: float) -> types.CreateMessageResult:
        request = types.CreateMessageRequest(params=types.CreateMessageRequestParams.model_validate(params))
        stream = ServerMessageMetadata(related_request_id=self._context.request_id)
        return await self._context.session.send_request(request, types.CreateMessageResult, seconds, stream)

    def _to_model_error(self, code: int, seconds: float) -> ModelFailed:
        match code:
            case types.REQUEST_TIMEOUT:
                return late_error(seconds)
            case types.CONNECTION_CLOSED:
                return ModelFailed(CLIENT_GONE)
            case _:
                return declined_error(code)

    def close(self) -> None:
        """Cancel all open requests."""
        for answer in self._waiting:
            answer.cancel()
