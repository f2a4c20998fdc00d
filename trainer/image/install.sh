#!/bin/sh
# The last step of each image: copies our files to the paths of the published systems, writes the digits as IDX files
# and the bill of materials.
set -eu
root=/opt/trainstack
export PYTHONPATH="$root"

mkdir -p /opt/pytorch-mnist /opt/mnist/src /opt/mnist/models /datasets
cp "$root/trainer/scripts/mnist.py" /opt/pytorch-mnist/mnist.py
cp "$root/trainer/scripts/mnist_training.py" /opt/mnist/src/mnist_training.py
python3 -m trainer data digits "$root/digits.csv" /datasets/digits
python3 -m trainer data bake "$root/data" /datasets
rm -r "$root/digits.csv" "$root/data"
# Debian builds torch without libuv. torchrun's two kinds of rendezvous ask for libuv, and ignore USE_LIBUV.
rendezvous=/usr/lib/python3/dist-packages/torch/distributed/elastic/rendezvous
if [ -d "$rendezvous" ]; then
  for file in "$rendezvous/c10d_rendezvous_backend.py" "$rendezvous/static_tcp_rendezvous.py"; do
    sed -i 's/multi_tenant=True,$/& use_libuv=False,/' "$file"
    grep -q use_libuv=False "$file"
    python3 -m compileall -q "$file"
  done
  # The processes that torchrun starts in a pod ask its store for libuv, too.
  file=/usr/lib/python3/dist-packages/torch/distributed/rendezvous.py
  sed -i 's/is_master=False,$/& use_libuv=use_libuv,/' "$file"
  grep -q 'is_master=False, use_libuv=use_libuv,' "$file"
  python3 -m compileall -q "$file"
fi
python3 -m compileall -q "$root/trainer"

# The image's content, for users who have only the image.
python3 "$root/trainer/image/bill.py" "$root/bill.cdx.json"

# Any user of group 0 may write in the folder where the published image allows it.
chgrp -R 0 /opt/mnist
chmod -R g+rwX /opt/mnist
