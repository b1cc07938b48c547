#!/bin/sh
# The first process of a Linux that has the tests and nothing else (tools/booted.py). It runs each test in a process of its
# own, tells of those that fail, and ends the machine.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 group /sys/fs/cgroup
echo 0 > /proc/sys/kernel/printk
uname -srm
for program in $(cat /programs); do
  count=0 suite=
  for word in $($program --gtest_list_tests | sed '/^Running main/d; s/#.*//'); do
    case $word in
      *.) suite=$word && continue ;;
    esac
    count=$((count + 1))
    said=$(cd /tmp && timeout LIMIT $program --gtest_filter=$suite$word --gtest_brief=1 2>&1)
    status=$?
    [ $status = 0 ] && continue
    echo "$said" | sed 's/^/| /'
    echo "FAILED ${program##*/} $suite$word $status"
  done
  echo "DONE ${program##*/} $count"
done
echo END
poweroff -f
