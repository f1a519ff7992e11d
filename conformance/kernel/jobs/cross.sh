#!/bin/bash
# In the guest: cifs.ko and nfs.ko mount one directory of one Longshore server, and what either caches, locks or has open
# the other one sees. Beside it: longshore.
#   conformance/kernel/run.sh conformance/kernel/jobs/cross.sh target/release/longshore
# shellcheck source=/dev/null
. /usr/lib/lab.sh
mkdir -p /scratch/share /mnt/c /mnt/n && chmod 777 /scratch/share
cat >/tmp/l.toml <<'END'
[server]
smb = "127.0.0.1:4450"
nfs = "127.0.0.1:2049"
state = "/scratch/state"
[share.share]
path = "/scratch/share"
nfs_clients = ["127.0.0.1"]
nfs_squash = "none"
END
LONGSHORE_PASSWORD=pw ./longshore serve --config /tmp/l.toml --user bench >"$RESULTS/server.log" 2>&1 &
wait_port 4450 127.0.0.1 && wait_port 2049 127.0.0.1 || { cat "$RESULTS/server.log"; lab_end; }
modprobe -q aesni_intel
is() { [ "$(cat "$1" 2>&1)" = "$2" ] || { fail "$3: $1 is $(cat "$1" 2>&1), not $2"; return 1; }; }

for v in 4.2 4.1 4.0; do
  mount.cifs //127.0.0.1/share /mnt/c -o "username=bench,password=pw,port=4450,uid=0,gid=0,vers=3.1.1" || { dmesg | tail -3; fail "mount cifs"; lab_end; }
  mount -t nfs -o "vers=$v,port=2049" 127.0.0.1:/share /mnt/n || { fail "mount nfs $v"; lab_end; }
  for i in 1 2 3; do
    # NFS writes under a delegation; SMB reads what was written, and writes; NFS reads that.
    : >/mnt/n/a$i && chmod 666 /mnt/n/a$i && exec 7<>/mnt/n/a$i && echo "nfs $i" >&7
    is /mnt/c/a$i "nfs $i" "SMB after NFS" && echo "smb $i" >/mnt/c/a$i && exec 7>&- && is /mnt/n/a$i "smb $i" "NFS after SMB"
    # SMB writes under a lease; NFS reads what was written, and writes; SMB reads that.
    : >/mnt/c/b$i && chmod 666 /scratch/share/b$i && exec 8<>/mnt/c/b$i && echo "smb $i" >&8
    is /mnt/n/b$i "smb $i" "NFS after SMB" && echo "nfs $i" >/mnt/n/b$i && exec 8>&- && is /mnt/c/b$i "nfs $i" "SMB after NFS"
  done
  # A range that one has locked the other does not get (cifs.ko locks ranges at the server, as Windows does).
  : >/mnt/n/lock && chmod 666 /mnt/n/lock && exec 7<>/mnt/n/lock && flock -n 7 || fail "lock by NFS"
  flock -n /mnt/c/lock -c true 2>/dev/null && fail "SMB has NFS's lock as well"
  exec 7>&-; flock -w 5 /mnt/c/lock -c true || fail "the lock is free"
  # A name goes under an open of the other side, and the open stays.
  echo text >/mnt/n/gone && exec 7</mnt/n/gone && rm /mnt/c/gone && [ "$(cat <&7)" = text ] || fail "removed by SMB under an open of NFS"
  exec 7>&-; sleep 1; [ -e /scratch/share/gone ] && fail "it is still there"
  umount /mnt/c /mnt/n || fail umount
  rm -f /scratch/share/*
  echo "SMB beside NFS $v: done"
done
grep -i panicked "$RESULTS/server.log" && fail "the server panicked"
lab_end
