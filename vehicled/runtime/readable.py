"""Waiting for a readable descriptor on asyncio and trio."""

import asyncio
from collections.abc import Callable

import anyio


async def while_readable(fd: int, on_readable: Callable[[], float | None]) -> None:
    """Call ``on_readable`` each time ``fd`` is readable. Ends only by cancellation or an exception.

    It returns a pause, s, after which it is called again whatever the descriptor says; None to wait
    for the descriptor. On asyncio one registration lasts for the whole time, because
    ``anyio.wait_readable`` registers for every wake-up and turns the loop twice, which doubles the
    cost of a small frame.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        pause_s: float | None = None
        while True:
            if pause_s is None:
                await anyio.wait_readable(fd)
            else:
                await anyio.sleep(pause_s)
            pause_s = on_readable()
    # anyio's cancel scopes cancel the future that a task waits for, so a bare future is enough.
    end: asyncio.Future[None] = loop.create_future()
    waiting: asyncio.TimerHandle | None = None

    def ready() -> None:
        nonlocal waiting
        try:
            pause_s = on_readable()
        except BaseException as error:  # noqa: BLE001 - a loop's callback would only log it; here it reaches the task that waits
            loop.remove_reader(fd)
            waiting = None
            if not end.done():
                end.set_exception(error)
            return
        if pause_s is not None:
            loop.remove_reader(fd)
            waiting = loop.call_later(pause_s, ready)
        elif waiting is not None:
            waiting = None
            loop.add_reader(fd, ready)

    loop.add_reader(fd, ready)
    try:
        await end
    finally:
        if waiting is not None:
            waiting.cancel()
        loop.remove_reader(fd)
