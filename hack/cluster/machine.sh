#!/usr/bin/env bash
# Runs on a node's virtual machine after each boot. machines.py sets NODE, FOLDER and SOCKET, and
# defines `link` and a function for each program.
set -ex
hostname "$NODE"

# The programs keep their files on the machine's disk, which survives a reboot.
mkdir -p /disk
mount /dev/vda /disk
mkdir -p /disk/log /disk/corelane
[ -d /disk/node ] || cp -a "$FOLDER" /disk/node
mount --bind /disk/node "$FOLDER"
mount --bind /disk/log /var/log
mount --bind /disk/corelane /var/lib/corelane
# These folders refer to processes, mounts and namespaces of an earlier boot, so they start empty.
mkdir -p "$FOLDER/run"
for place in "$FOLDER/run" /var/lib/cni /var/lib/kubelet; do
  mount -t tmpfs run "$place"
done

link
echo 1 >/proc/sys/net/ipv4/ip_forward
ulimit -n 20000

# As with systemd, all system processes together have the same weight as pods that request one CPU.
# Otherwise, each of their threads would have this weight.
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
