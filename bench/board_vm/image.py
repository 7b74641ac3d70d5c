"""Image of the vehicle's computer: Debian packages and this checkout, cached by a hash of what goes
in.

Three steps, each kept in the cache under the hash of its inputs: Debian with the real-time kernel
as a tar file, the same with the locked packages and this checkout in ``/opt/vehicled``, and the
file system that the virtual machine boots.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "board"
PREPARE = ROOT / "bench" / "board_vm" / "guest" / "prepare.sh"
SUITE = "bookworm"
ARCHITECTURES = {"amd64": "linux-image-rt-amd64", "arm64": ""}
"""Kernel package by Debian's name of the architecture. aarch64 runs on the kernel of the host, by
qemu-user."""
PACKAGES = (
    "systemd", "systemd-sysv", "udev", "dbus", "kmod", "procps", "iproute2", "sudo", "e2fsprogs",
    "ca-certificates", "git", "make", "python3", "python3-venv", "can-utils", "pps-tools",
)  # fmt: skip
"""Packages of a vehicle's computer, and the tools of the checks."""
FOREIGN_PACKAGES = (
    "systemd", "ca-certificates", "git", "make", "procps", "python3", "python3-venv",
)  # fmt: skip
"""Packages of a system without a kernel, whose programs qemu-user runs."""
INSTALLED_FROM = ("vehicled", "drivers", "sim_backend", "profiles", "systemd", "pyproject.toml",
    "requirements.lock", "LICENSE",
                  "README.md", ".ci/compiled")  # fmt: skip
"""Tracked files of the checkout that the image holds."""
ESSENTIAL_HOOK = """\
mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/usr/share/initramfs-tools/modules.d"
echo MODULES=list >"$1/etc/initramfs-tools/conf.d/board"
printf 'virtio_pci\\nvirtio_blk\\next4\\n' >"$1/usr/share/initramfs-tools/modules.d/board"
"""
"""A small initrd: unpacking the usual one takes the emulated processor half of its time to boot."""
CACHED_WHEELS = "/var/cache/pip"
WITHOUT_DOCUMENTS = tuple(
    f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")
)
"""Options of mmdebstrap that leave out what no program reads."""
SIZE_MB = 4096
ENVIRONMENT = ("PIP_", "SSL_", "REQUESTS_", "CURL_", "http_proxy", "https_proxy", "no_proxy")
"""Variables with the host's way to the package index, handed to the installation."""


class MissingToolError(Exception):
    """A package of the host is missing; the text names it."""


class Image(NamedTuple):
    """Disk and kernel of the virtual machine."""

    disk: Path
    kernel: Path
    initrd: Path
    release: str
    """Version of the kernel, as ``uname -r`` gives it."""


def need(*tools: tuple[str, str]) -> None:
    """Check that each command is there; name the Debian packages of those that are not. Raises
    MissingToolError."""
    missing = [
        package
        for command, package in tools
        if shutil.which(command, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None
    ]
    if missing:
        raise MissingToolError(f"missing on this computer: sudo apt install {' '.join(missing)}")


def digest(*parts: str | bytes | Path) -> str:
    """Return a hash of texts and of files with their names; a change of any, or of their order,
    changes it."""
    found = hashlib.sha256()
    for part in parts:
        data = (
            part.read_bytes()
            if isinstance(part, Path)
            else part.encode()
            if isinstance(part, str)
            else part
        )
        name = (
            str(part.relative_to(ROOT))
            if isinstance(part, Path) and part.is_relative_to(ROOT)
            else ""
        )
        found.update(f"{len(name)} {len(data)} {name}".encode() + data)
    return found.hexdigest()[:16]


def tracked(names: Iterable[str] = INSTALLED_FROM) -> list[Path]:
    """Return the tracked files below these names that exist, sorted."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--", *names],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [
        path
        for path in map(ROOT.joinpath, sorted(filter(None, done.stdout.split("\0"))))
        if path.is_file()
    ]


def base(arch: str) -> Path:
    """Return a tar file of Debian, made anew if packages or hooks have changed."""
    kernel = ARCHITECTURES[arch]
    packages = [*PACKAGES, kernel, "initramfs-tools"] if kernel else FOREIGN_PACKAGES
    options = [
        "--variant=minbase", f"--architectures={arch}", f"--include={','.join(packages)}",
        f"--essential-hook={ESSENTIAL_HOOK}",
        *WITHOUT_DOCUMENTS,
    ]  # fmt: skip
    tar = CACHE / f"debian-{arch}-{digest(SUITE, *options)}.tar"
    if not tar.exists():
        print(f"{tar.name}: Debian {SUITE} from its packages, some minutes, once", flush=True)
        _make(tar, lambda part: ["mmdebstrap", "--quiet", *options, SUITE, str(part)])
    return tar


def system(arch: str) -> Path:
    """Return a folder with Debian, the checkout in ``/srv/vehicled`` and its environment in
    ``/opt/vehicled``."""
    tar, files = base(arch), tracked()
    root = CACHE / f"system-{arch}-{digest(tar.name, PREPARE, *files)}"
    if root.exists():
        return root
    print(f"{root.name}: installing the locked packages and this checkout", flush=True)
    part = root.with_name(f".{root.name}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    subprocess.run(["tar", "-C", str(part), "-xf", str(tar), "--exclude=./dev/*"], check=True)
    for path in files:
        target = part / "srv" / "vehicled" / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    (part / "etc" / "sudoers.d").mkdir(exist_ok=True)
    inside(part, "/srv/vehicled", ["sh", "-e", "-c", PREPARE.read_text()])
    part.rename(root)
    _forget(root)
    return root


def image(arch: str = "amd64") -> Image:
    """Return kernel, initrd and disk of the present checkout."""
    need(
        ("mmdebstrap", "mmdebstrap"),
        ("mke2fs", "e2fsprogs"),
        ("qemu-system-x86_64", "qemu-system-x86"),
    )
    if os.geteuid() != 0:
        raise MissingToolError("the image is made by root, whose files it holds: sudo make board")
    CACHE.mkdir(parents=True, exist_ok=True)
    root = system(arch)
    kernel = next((root / "boot").glob("vmlinuz-*"))
    release = kernel.name.removeprefix("vmlinuz-")
    disk = CACHE / f"{root.name.replace('system', 'disk')}.img"
    if not disk.exists():
        print(f"{disk.name}: making the file system", flush=True)
        _make(
            disk,
            lambda part: [
                "mke2fs",
                "-q",
                "-t",
                "ext4",
                "-L",
                "root",
                "-d",
                str(root),
                str(part),
                f"{SIZE_MB}M",
            ],
        )
    return Image(disk, kernel, root / "boot" / f"initrd.img-{release}", release)


def inside(root: Path, folder: str, command: Sequence[str], *, capture: bool = False) -> str:
    """Run a command in the system, with the host's way to the package index, of which nothing stays
    in the system. Return what it printed, if that is captured."""
    environment = {key: value for key, value in os.environ.items() if key.startswith(ENVIRONMENT)}
    environment |= {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "PIP_CACHE_DIR": "/var/cache/pip",
    }
    (CACHE / "pip").mkdir(exist_ok=True)
    binds = [("/dev", "dev"), ("/proc", "proc"), (str(CACHE / "pip"), CACHED_WHEELS.lstrip("/"))]
    binds += [
        (name, name.lstrip("/"))
        for name in ("/etc/resolv.conf", "/etc/pip.conf", "/etc/ssl/certs")
        if Path(name).exists()
    ]
    lines = []
    for source, name in binds:
        target = root / name
        if not target.exists():
            target.mkdir(parents=True) if Path(source).is_dir() else target.touch()
        lines.append(f'mount --bind "{source}" "{target}"')
    # A mount namespace of its own: the mounts end with it.
    script = "\n".join(
        ["set -e", *lines, f'exec chroot "{root}" sh -c \'cd {folder}; exec "$@"\' sh "$@"']
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *command],
        env=environment,
        check=not capture,
        stdout=subprocess.PIPE if capture else None,
        stderr=subprocess.STDOUT if capture else None,
        text=True,
    )
    return done.stdout or ""


def _make(target: Path, command: Callable[[Path], list[str]]) -> None:
    part = target.with_name(f".{target.name}")
    part.unlink(missing_ok=True)
    subprocess.run(command(part), check=True)
    part.rename(target)
    _forget(target)


def _forget(target: Path) -> None:
    """Remove what earlier inputs of the same step have left in the cache."""
    stem = target.name.rsplit("-", 1)[0]
    old = [str(path) for path in CACHE.glob(f"{stem}-*") if path != target]
    subprocess.run(["rm", "-rf", *old], check=True)
