"""What agent hooks do with the store. Imported only once the deadline runs."""

import threading

from holdfast.app import open as open_memory
from holdfast.features.agent_hosts import service as host_hooks
from holdfast.features.agent_hosts.host import HostEvent, build_answer
from holdfast.kernel.context import Progress
from holdfast.settings import Settings
from holdfast.surfaces.cli.deadline import Deadline
from holdfast.surfaces.error_responses import encode


def handle_event(event: HostEvent, settings: Settings, deadline: Deadline) -> None:
    """Answer the event, then store the captured turns."""
    with open_memory(settings=settings, source="hook", once=True) as memory:
        ctx = memory.ctx
        text = ""
        if event.event == "session-start":
            text = host_hooks.build_session_start(ctx, event, settings.session_start_budget_tokens)
        elif event.event == "prompt":
            text = host_hooks.build_prompt_context(ctx, event, settings.hook_budget_tokens)
        if text:
            deadline.write(encode(build_answer(event.name, text)))
        if settings.hook_capture:
            host_hooks.capture_event(ctx, event, memory.call)
        if event.event == "session-end":
            host_hooks.embed_pending(ctx.for_caller(ctx.caller, _progress_until(deadline)))


def _progress_until(deadline: Deadline) -> Progress:
    """Return a progress that is cancelled at half of the remaining time, to leave time for cleanup."""
    stop = threading.Event()
    timer = threading.Timer(deadline.remaining / 2, stop.set)
    timer.daemon = True
    timer.start()
    return Progress(stop=stop)
