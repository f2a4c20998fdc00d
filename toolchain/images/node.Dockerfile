# The kind node, before the control-plane images are imported. BASE and root/ are made by node.py.
ARG BASE
FROM ${BASE}
COPY root/ /

# Units that make no sense in a container go; kind starts what it needs. systemd finds Debian's programs where
# kind's units look for them.
RUN set -eu; \
    rm -f /lib/systemd/system/multi-user.target.wants/* /etc/systemd/system/*.wants/* \
          /lib/systemd/system/local-fs.target.wants/* /lib/systemd/system/sockets.target.wants/*udev* \
          /lib/systemd/system/sockets.target.wants/*initctl* /lib/systemd/system/basic.target.wants/* \
          /lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service; \
    echo ReadKMsg=no >> /etc/systemd/journald.conf; \
    for program in containerd ctr containerd-shim-runc-v2; do ln -s "/usr/bin/$program" /usr/local/bin/; done; \
    mkdir -p /opt/cni /etc/kubernetes/manifests; \
    ln -s /usr/lib/cni /opt/cni/bin; \
    systemctl enable kubelet.service containerd.service undo-mount-hacks.service; \
    systemctl mask systemd-binfmt.service

# Every pod gets the product files that kind's entrypoint prepares, and no resource limits of the build's host.
RUN ctr oci spec \
    | jq '.hooks.createContainer += [{"path": "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)' \
    > /etc/containerd/cri-base.json

ENV container=docker
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]
