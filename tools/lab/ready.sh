# What a machine of the lab needs before anything runs on it, as a distribution would ready it; read by its first process.
# shellcheck shell=sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mkdir -p /run/lock /dev/shm /root
while read -r module; do insmod "/modules/$module"; done </modules/order
mount -t cgroup2 cgroup /sys/fs/cgroup
for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
  echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control
done
ifconfig lo 127.0.0.1 up
stty -F /dev/ttyS1 raw -echo 2>/dev/null
