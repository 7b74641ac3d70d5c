"""Waiting for a readable descriptor on asyncio and trio."""

import asyncio
from collections.abc import Callable

import anyio


async def while_readable(fd: int, on_readable: Callable[[], object]) -> None:
    """Call ``on_readable`` each time ``fd`` is readable. Ends only by cancellation or an exception.

    On asyncio one registration lasts for the whole time, because ``anyio.wait_readable`` registers for every wake-up, which doubles
    the cost of a small frame.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        while True:
            await anyio.wait_readable(fd)
            on_readable()
    # anyio's cancel scopes cancel the future that a task waits for, so a bare future is enough.
    end: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        try:
            on_readable()
        except BaseException as error:  # noqa: BLE001 - a loop's callback would only log it; here it reaches the task that waits
            loop.remove_reader(fd)
            if not end.done():
                end.set_exception(error)

    loop.add_reader(fd, ready)
    try:
        await end
    finally:
        loop.remove_reader(fd)
