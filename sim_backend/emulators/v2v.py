"""Radio between vehicles on its wire: datagrams of the daemon become states for the channel, and
those of others become datagrams of their radios."""

from collections import deque

from drivers.v2v.codec import Broadcast, Receipt, V2vError, decode, encode
from sim_backend.emulators.outbox import EmulatorOutbox
from vehicled.core.messages import Message, NeighbourState
from vehicled.core.wire.datagram import datagram_reader, pack
from vehicled.profile.schema import DeviceTable

BEGAN_NS = 1
"""Start of the radios of the others."""


class V2vRadio(EmulatorOutbox):
    """Radio whose channel is that of the fleet: :mod:`sim_backend.fleet.radio`."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__()
        self._fleet: str = device.driver.selected.fleet
        self._datagrams = datagram_reader()
        self._own: deque[Receipt] = deque(maxlen=16)
        self.broadcasts: list[tuple[int, NeighbourState]] = []
        """States that were sent, with the times at which the port took them."""

    def on_message(self, message: Message, ready_ns: int) -> None:
        """Send the state of another vehicle as its radio would, with a receipt of our newest
        one."""
        if not isinstance(message, NeighbourState):
            return
        # Of what came later the sender knew nothing.
        known = [each for each in self._own if each.received_ns <= message.t_ns]
        broadcast = Broadcast(
            self._fleet, message.sender, BEGAN_NS, message.t_ns, message, known[-1:]
        )
        self._tx.append((ready_ns, pack(encode(broadcast))))

    def on_rx(self, data: bytes, t_ns: int) -> None:
        """Take what the daemon broadcasts."""
        for datagram in self._datagrams.feed(data):
            try:
                broadcast = decode(datagram)
            except V2vError:
                continue
            self._own.append(Receipt(broadcast.sender, broadcast.began_ns, broadcast.sent_ns, t_ns))
            self.broadcasts.append((t_ns, broadcast.state))
