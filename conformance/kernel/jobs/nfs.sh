#!/bin/bash
# In the guest: nfs.ko mounts a Longshore server with vers=3 and works on it. Beside it: longshore.
#   conformance/kernel/run.sh conformance/kernel/jobs/nfs.sh target/release/longshore
# shellcheck source=/dev/null
. /usr/lib/lab.sh
mkdir -p /scratch/share /mnt/n && chmod 777 /scratch/share
LONGSHORE_PASSWORD=pw ./longshore serve share=/scratch/share --smb 127.0.0.1:4450 --nfs 127.0.0.1:2049 --user bench >"$RESULTS/server.log" 2>&1 &
wait_port 2049 127.0.0.1 || { cat "$RESULTS/server.log"; lab_end; }
if mount -t nfs -o vers=3,port=2049,mountport=2049,proto=tcp,mountproto=tcp,nolock 127.0.0.1:/share /mnt/n; then
  df /mnt/n | tail -1; smoke /mnt/n && echo "NFS vers=3: smoke ok"
  dd if=/dev/urandom of=/tmp/r bs=1M count=4 2>/dev/null; cp /tmp/r /mnt/n/r; umount /mnt/n; cmp /tmp/r /scratch/share/r && echo "NFS vers=3: copy ok"
else dmesg | tail -5; fail "mount"; fi
lab_end
