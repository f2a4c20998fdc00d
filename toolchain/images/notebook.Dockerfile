# Debian's Python with the packages of requirements-notebook.lock, which on_debian.py puts into the folder `packages`.
ARG BASE
FROM ${BASE}
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends python3 > /dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY packages /opt/packages
ENV PYTHONPATH=/opt/packages HOME=/tmp
# A base with another Python than the packages are for fails here.
RUN python3 -m compileall -q /opt/packages \
 && python3 -c 'import ipykernel, matplotlib, nbclient, numpy'
USER 1000:1000
