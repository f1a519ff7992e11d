#!/bin/bash
# In the guest: fsx and pjdfstest on nfs.ko's mounts of a Longshore server. Beside it: longshore, fsx, pjdfstest.
#   cargo install --locked --root DIR fsx; cargo install --locked --root DIR pjdfstest
#   conformance/kernel/run.sh -t 1500 conformance/kernel/jobs/nfs-suites.sh target/release/longshore DIR/bin/fsx DIR/bin/pjdfstest
#   VERSIONS="4.2 4.0 3"  which mounts          OPS=N  fsx operations (20000)          PATTERN=P  these pjdfstests only
# shellcheck source=/dev/null
. /usr/lib/lab.sh
mkdir -p /scratch/share /mnt/n && chmod 777 /scratch/share
cat >/tmp/l.toml <<'END'
[server]
smb = "off"
nfs = "127.0.0.1:2049"
state = "/scratch/state"
[share.share]
path = "/scratch/share"
nfs_squash = "none"
END
cat >pjd.toml <<'END'
[features]
posix_fallocate = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.02
allow_remount = false
END
cat >fsx.toml <<'END'
flen = 262144
nomsyncafterwrite = false
[opsize]
max = 65536
[weights]
invalidate = 1.0
truncate = 1.0
read = 10.0
write = 10.0
mapread = 5.0
mapwrite = 5.0
fsync = 1.0
fdatasync = 1.0
END
./longshore serve --config /tmp/l.toml >"$RESULTS/server.log" 2>&1 &
wait_port 2049 127.0.0.1 || { cat "$RESULTS/server.log"; lab_end; }
ops=${OPS:-20000}
for v in ${VERSIONS:-4.2 4.0 3}; do
  options=vers=$v,port=2049
  [ "$v" = 3 ] && options+=,mountport=2049,proto=tcp,mountproto=tcp,nolock
  mount -t nfs -o "$options" 127.0.0.1:/share /mnt/n || { fail "mount $v"; continue; }
  began=$SECONDS
  if [ "$ops" = 0 ]; then :
  elif ./fsx -q -f fsx.toml -N "$ops" -S 7 /mnt/n/fsx.dat >fsx.out 2>&1; then echo "FSX $v: ok, $ops operations in $((SECONDS - began)) s"
  else tail -20 fsx.out; fail "fsx $v"; fi
  rm -f /mnt/n/fsx.dat
  began=$SECONDS
  mkdir -p /mnt/n/pjd && chmod 777 /mnt/n/pjd
  # shellcheck disable=SC2086
  ./pjdfstest -c pjd.toml -p /mnt/n/pjd ${PATTERN:-} >"$RESULTS/pjd-$v.txt" 2>&1
  echo "PJDFSTEST $v: $(grep -a Summary: "$RESULTS/pjd-$v.txt") in $((SECONDS - began)) s"
  grep -a FAILED "$RESULTS/pjd-$v.txt" | tr -s ' '
  rm -rf /mnt/n/pjd; umount /mnt/n || fail "umount $v"
done
lab_end
