#!/bin/sh
# What the machine of a node starts after each boot; hack/cluster replaces the variables, and $$ is a dollar sign.
set -ex
$environment
hostname $name

# The files of the programs are on its disk, which outlives a boot.
mkdir -p /disk
mount /dev/vda /disk
mkdir -p /disk/log /disk/corelane
[ -d /disk/node ] || cp -a $folder /disk/node
mount --bind /disk/node $folder
mount --bind /disk/log /var/log
mount --bind /disk/corelane /var/lib/corelane
# What names processes, mounts and namespaces of an earlier boot.
mkdir -p $folder/run
for place in $folder/run /var/lib/cni /var/lib/kubelet; do
  mount -t tmpfs run "$$place"
done

$link
echo 1 >/proc/sys/net/ipv4/ip_forward
ulimit -n 20000

keep() {
  while :; do
    "$$@" >>"/var/log/$$(basename "$$1").log" 2>&1 || true
    sleep 1
  done
}
keep $containerd &
until [ -S $socket ]; do
  sleep 0.2
done
keep $kubelet &
keep $kube_proxy &
