#!/bin/sh
# node_exporter collects the text files in the folder $1, and Prometheus scrapes it, as prometheus.yaml there says.
set -eu
prometheus-node-exporter --web.listen-address=127.0.0.1:9100 --collector.disable-defaults \
  --collector.textfile --collector.textfile.directory="$1" &
exec prometheus --web.listen-address=127.0.0.1:9090 --config.file="$1/prometheus.yaml" --storage.tsdb.path=/tmp/data 2>&1
