#!/bin/sh
# Run the trainer's tests inside a trainer image, on real MNIST where it is at hand.
#
#   tests/trainer/run_in_image.sh IMAGE [PYTEST ARGUMENT...]
#
# TRAINSTACK_MNIST names the folder with MNIST's IDX files (default ../shared/data/mnist beside the clone).
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
image=$1
shift
mnist=$(cd "$root" && realpath -m "${TRAINSTACK_MNIST:-../shared/data/mnist}")

# Each image has tests of its own under its own tag: two may run at once.
tests=trainstack/trainer-tests:$(printf '%s' "$image" | tr -c 'a-zA-Z0-9' '-')
docker build --quiet --file "$root/tests/trainer/Dockerfile" --build-arg IMAGE="$image" --tag "$tests" "$root" > /dev/null
if [ -d "$mnist" ]; then
  set -- --volume "$mnist:/mnist:ro" "$tests" "$@"
else
  set -- "$tests" "$@"
fi
if [ -d /proc/sys/net/ipv6 ]; then # some engines take it from a container that has no network
  set -- --sysctl net.ipv6.conf.all.disable_ipv6=0 "$@"
fi
# File systems that cannot take a run, or that a test fills; see tests/trainer/inside/test_volume.py.
set -- --tmpfs /volumes/full:size=64k,mode=1777 --tmpfs /volumes/small:size=8m,mode=1777 \
  --tmpfs /volumes/read-only:ro,mode=1777 --tmpfs /volumes/foreign:mode=0755,uid=0 \
  --tmpfs /volumes/closed:mode=0700,uid=0 "$@"
# A quarter of the usual share of the cores, so that other containers, a cluster's nodes, are not held up.
exec docker run --rm --init --cpu-shares 256 --network none --read-only --tmpfs /tmp:exec "$@"
