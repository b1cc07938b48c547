#!/bin/sh
# The first process of a Linux that has the files of the machine which boots it (tools/booted_here.py): read only, and what
# is written over them stays in memory. It runs one command there, tells how that ended, and ends the machine.
mount -t proc proc /proc
for module in $(cat /modules/order); do insmod "/modules/$module.ko"; done
mkdir -p /below /memory /root
mount -t tmpfs -o size=75% memory /memory
mkdir /memory/upper /memory/work
options=trans=virtio,version=9p2000.L,msize=524288
mount -t 9p -o "$options,ro,cache=loose" files /below
mount -t overlay -o lowerdir=/below,upperdir=/memory/upper,workdir=/memory/work root /root
mount -t proc proc /root/proc
mount -t sysfs sys /root/sys
mount -t devtmpfs dev /root/dev
mkdir -p /root/dev/shm /root/dev/pts
mount -t tmpfs shm /root/dev/shm
mount -t devpts pts /root/dev/pts
ln -sf /proc/self/fd /root/dev/fd
mount -t cgroup2 group /root/sys/fs/cgroup
mount -t 9p -o "$options" logs "/root$LOGS"
# The topmost group may not hold processes if those below are to be limited.
mkdir /root/sys/fs/cgroup/tests
echo $$ > /root/sys/fs/cgroup/tests/cgroup.procs
echo +memory +cpu +pids > /root/sys/fs/cgroup/cgroup.subtree_control
ip link set lo up
cp /command /root/run/command
chroot /root /bin/sh /run/command
echo "ENDED $?"
poweroff -f
