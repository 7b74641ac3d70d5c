"""`vehicled teleop` drives by a gamepad of the kernel; a gamepad that is unplugged while driving
brakes the vehicle."""

from bench.board_vm.board import Board, NotTriedError


def press(board: Board, words: str) -> None:
    """Move a button or an axis of the gamepad, or pull its plug."""
    board.shell(f"echo '{words}' >/run/pad")


def check(board: Board) -> str:
    """Press the buttons of a gamepad made by uinput, then unplug it."""
    if board.status_of("modprobe uinput && modprobe joydev")[0] != 0:
        raise NotTriedError("this kernel has no uinput or no joydev")
    board.stand()
    board.shell("usermod -aG input alice; install -d -o alice /run/bench")
    screen = "/run/bench/teleop.txt"
    with board.running("exec python3 /bench/pad.py /run/pad"):
        board.wait_for(
            lambda: board.status_of("test -p /run/pad -a -c /dev/input/js0")[0] == 0, "no gamepad"
        )
        with board.running(
            f"sleep 900 | script --quiet --flush --command 'vehicled teleop' {screen}", user="alice"
        ):
            board.wait_for(
                lambda: board.status_of(f"grep -q 'm/s' {screen}")[0] == 0,
                "teleop shows no state",
                90.0,
            )
            for trigger in ("ABS_Z", "ABS_RZ"):
                press(board, f"{trigger} 255")
                press(board, f"{trigger} 0")
            press(board, "BTN_TL 1")
            press(board, "BTN_START 1")
            press(board, "BTN_START 0")
            board.until("TELEOP")
            board.sleep(1.0)
            press(board, "ABS_RZ 120")
            state = board.until("TELEOP", speed_mps=0.5)
            press(board, "unplug")
            code = board.stopped("teleop_unplugged", "teleop_lost")
    return f"{state['estimate']['speed_mps']:.2f} m/s by hand, stopped by {code}"
