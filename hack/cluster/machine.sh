#!/usr/bin/env bash
# What the machine of a node does after each boot. machines.py sets NODE, FOLDER and SOCKET, and defines `link` and a
# function for each program.
set -ex
hostname "$NODE"

# The files of the programs are on its disk, which outlives a boot.
mkdir -p /disk
mount /dev/vda /disk
mkdir -p /disk/log /disk/corelane
[ -d /disk/node ] || cp -a "$FOLDER" /disk/node
mount --bind /disk/node "$FOLDER"
mount --bind /disk/log /var/log
mount --bind /disk/corelane /var/lib/corelane
# What names processes, mounts and namespaces of an earlier boot.
mkdir -p "$FOLDER/run"
for place in "$FOLDER/run" /var/lib/cni /var/lib/kubelet; do
  mount -t tmpfs run "$place"
done

link
echo 1 >/proc/sys/net/ipv4/ip_forward
ulimit -n 20000

# As with systemd: all of them together weigh as much as a CPU of pods, instead of each of their threads.
mkdir -p /sys/fs/cgroup/system
echo $$ >/sys/fs/cgroup/system/cgroup.procs

keep() {
  while :; do
    "$1" >>"/var/log/$1.log" 2>&1 || true
    sleep 1
  done
}
keep containerd &
until [ -S "$SOCKET" ]; do
  sleep 0.2
done
keep kubelet &
keep kube-proxy &
