#!/bin/bash
# In the guest: an ext4 file system with quotas, and what their owner is told of them over NFS 3, NFS 4.2 and SMB. Beside it:
# longshore.
#   conformance/kernel/run.sh conformance/kernel/jobs/quota.sh target/release/longshore
# shellcheck source=/dev/null
. /usr/lib/lab.sh
modprobe -a loop quota_v2 2>/dev/null
truncate -s 96M /scratch/q.img && mkfs.ext4 -q -F -O quota -E quotatype=usrquota:grpquota /scratch/q.img
mkdir -p /q /mnt/n /mnt/c
mount -o loop,usrquota,grpquota /scratch/q.img /q || { dmesg | tail -3; fail "mount with quotas"; lab_end; }
chmod 777 /q
useradd -m anna 2>/dev/null || true
uid=$(id -u anna)
setquota -u anna 8192 16384 0 0 /q || fail "setquota"
LONGSHORE_PASSWORD=pw ./longshore serve q=/q --smb 127.0.0.1:4450 --nfs 127.0.0.1:2049 --user anna >"$RESULTS/server.log" 2>&1 &
wait_port 2049 127.0.0.1 || { cat "$RESULTS/server.log"; lab_end; }
as_anna() { setpriv --reuid "$uid" --regid "$(id -g anna)" --clear-groups "$@"; }
avail() { as_anna df --output=avail "$1" | tail -1 | tr -d ' '; }
between() { # WHAT LEAST MOST VALUE
  if [ "$4" -ge "$2" ] && [ "$4" -le "$3" ]; then echo "$1: $4 KiB left: ok"; else fail "$1: $4 KiB left, not $2 to $3"; fi
}
as_anna dd if=/dev/zero of=/q/mine bs=1M count=4 2>/dev/null; sync
mount -t nfs -o vers=3,port=2049,mountport=2049,proto=tcp,mountproto=tcp,nolock 127.0.0.1:/q /mnt/n || fail "mount vers=3"
between "NFS 3, anna" 11500 12300 "$(avail /mnt/n)"
between "NFS 3, root" 50000 90000 "$(df --output=avail /mnt/n | tail -1 | tr -d ' ')"
if as_anna dd if=/dev/zero of=/mnt/n/more bs=1M count=20 conv=fsync 2>/tmp/e; then fail "NFS 3 wrote beyond the quota"; else
  if grep -q "Disk quota exceeded" /tmp/e; then echo "NFS 3: refused with EDQUOT: ok"; else cat /tmp/e; fail "NFS 3: another error"; fi
fi
between "NFS 3, full" 0 300 "$(avail /mnt/n)"
as_anna rm /mnt/n/more; umount /mnt/n
mount -t nfs -o vers=4.2,port=2049 127.0.0.1:/q /mnt/n || fail "mount vers=4.2"
if as_anna dd if=/dev/zero of=/mnt/n/more bs=1M count=20 conv=fsync 2>/tmp/e; then fail "NFS 4.2 wrote beyond the quota"; else
  if grep -q "Disk quota exceeded" /tmp/e; then echo "NFS 4.2: refused with EDQUOT: ok"; else cat /tmp/e; fail "NFS 4.2: another error"; fi
fi
as_anna rm /mnt/n/more; umount /mnt/n; sync
mount -t cifs -o vers=3.1.1,port=4450,username=anna,password=pw,uid="$uid" //127.0.0.1/q /mnt/c || fail "mount cifs"
between "SMB, anna" 11500 12300 "$(avail /mnt/c)"
umount /mnt/c
lab_end
