#!/bin/sh
# Runs once in a container of the CPU image's base, which becomes the base of the GPU image: Debian's Python, and the
# wheels mounted at /mnt/packages. The first argument is the version of Python that they are for.
set -eu
target=/usr/local/lib/python$1/dist-packages
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends python3 > /dev/null
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*
python3 -c "import sys; assert '$target' in sys.path, 'Debian has another Python than $1'"
cp -r /mnt/packages/. "$target"
# These begin with the path of the Python that has downloaded the wheels.
rm -rf "$target/bin" "$target/.lock"
printf '#!/usr/bin/python3\nfrom torch.distributed.run import main\nmain()\n' > /usr/local/bin/torchrun
chmod 755 /usr/local/bin/torchrun
python3 -m compileall -q "$target"
