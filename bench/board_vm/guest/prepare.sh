# Runs in the system while its image is made, as root, in the checkout. What needs a package index, or what every Debian has from its
# installer; the service itself is installed by the first check, on the running system.
python3 - <<'PYTHON'
from pathlib import Path

from vehicled import __version__
from vehicled.cli.environment import settle
from vehicled.cli.installation import Installer

installer = Installer("/", dry=False)
settle(installer, Path.cwd(), __version__)
installer.keep_account()
PYTHON
find . -name __pycache__ -prune -exec rm -r {} +
echo board >/etc/hostname
echo '127.0.0.1 localhost board' >/etc/hosts
useradd --create-home --shell /bin/sh alice
useradd --create-home --shell /bin/sh mallory
echo 'alice ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/alice
printf '9p\n9pnet_virtio\nvirtio_console\n' >/etc/modules-load.d/board.conf
mkdir -p /bench
cat >/etc/systemd/system/bench-agent.service <<'UNIT'
# The other end of the bench: runs what the host asks for.
[Unit]
DefaultDependencies=no
After=systemd-modules-load.service systemd-remount-fs.service systemd-udevd.service
[Service]
ExecStartPre=/bin/sh -c 'mountpoint -q /bench || mount -t 9p -o trans=virtio,version=9p2000.L bench /bench'
ExecStart=/usr/bin/python3 -u /bench/agent.py
Restart=always
RestartSec=1
OOMScoreAdjust=-1000
[Install]
WantedBy=sysinit.target
UNIT
systemctl enable bench-agent.service
# Persistent, as `journalctl -b -1` needs it.
mkdir -p /var/log/journal
