"""Reading whenever a descriptor is readable, on either of anyio's backends."""

import asyncio
from collections.abc import Callable

import anyio


async def while_readable(fd: int, on_readable: Callable[[], object]) -> None:
    """Call ``on_readable`` each time ``fd`` is readable. Never returns: ends by cancellation, or by what it raises.

    On asyncio one registration lasts for the whole time: ``anyio.wait_readable`` registers anew for every wake-up, which doubles
    what a small frame costs.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        while True:
            await anyio.wait_readable(fd)
            on_readable()
    # A bare future under anyio: its cancel scopes cancel whatever future the task waits for.
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
