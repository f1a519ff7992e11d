#!/bin/bash
# In the guest: cifs.ko mounts a Longshore server in every dialect and protection it speaks, and works on it.
# Files beside it: longshore (unless SERVER=host) and tree/, what is copied in and out; fsx when OPS is set.
#   SERVER=guest|host   who runs the server; on the host it is 10.0.2.2:$PORT, share "share"
#   OPS=N               fsx operations (needs ./fsx)
# shellcheck source=/dev/null
. /usr/lib/lab.sh

host=127.0.0.1
if [ "${SERVER:-guest}" = host ]; then
  host=10.0.2.2
else
  mkdir -p /scratch/share && chmod 777 /scratch/share
  LONGSHORE_PASSWORD=pw ./longshore serve share=/scratch/share --smb 127.0.0.1:4450 --user bench >"$RESULTS/server.log" 2>&1 &
  server=$!
  PORT=4450
fi
wait_port "$PORT" "$host" || { cat "$RESULTS/server.log"; lab_end; }
modprobe -q aesni_intel

sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
sums tree >/tmp/want

copy_and_compare() { # MOUNT: the tree in, and out again past the client's cache
  cp -r tree "$1/tree" || fail "copy in" || return 1
  umount "$1" && mount_share "$1" "$options" || fail "remount" || return 1
  cp -r "$1/tree" /tmp/back || fail "copy out" || return 1
  sums /tmp/back >/tmp/got; rm -rf /tmp/back
  cmp /tmp/want /tmp/got || fail "checksums differ" || return 1
  rm -r "$1/tree" || fail "remove the tree"
}
mount_share() { mkdir -p "$1"; mount.cifs "//$host/share" "$1" -o "username=bench,password=pw,port=$PORT,uid=0,gid=0,$2"; }

for options in vers=2.1 vers=2.1,sign vers=3.0 vers=3.0,sign vers=3.0,seal vers=3.1.1 vers=3.1.1,sign vers=3.1.1,seal; do
  began=${EPOCHREALTIME/./}
  if ! mount_share /mnt/c "$options"; then fail "mount $options"; dmesg | tail -5; continue; fi
  if smoke /mnt/c && copy_and_compare /mnt/c; then
    echo "CIFS $options: ok, $(((${EPOCHREALTIME/./} - began) / 1000)) ms"
  else
    fail "$options"; dmesg | tail -5
  fi
  umount /mnt/c || fail "umount $options"
done

# fsx with the client's cache and without. The default mode, cache=strict, joins them when the server grants oplocks or
# leases: without one cifs.ko 6.12 answers a read of a hole with nothing (it does with Samba, too, when oplocks are off).
if [ -n "${OPS:-}" ]; then
  cat >fsx.toml <<T
flen = 262144
nomsyncafterwrite = false
[opsize]
max = 65536
[weights]
invalidate = 1.0
truncate = 1.0
read = 10.0
write = 10.0
fsync = 1.0
fdatasync = 1.0
mapread = 5.0
mapwrite = 5.0
T
  for options in vers=3.1.1,cache=loose vers=3.1.1,cache=none; do
    mount_share /mnt/c "$options" || { fail "mount $options"; continue; }
    began=$SECONDS
    case $options in *none) sed -i '/^map/d' fsx.toml;; esac # without a cache there is nothing to map
    if ./fsx -q -f fsx.toml -N "$OPS" -S 7 /mnt/c/fsx.dat >fsx.out 2>&1; then echo "FSX $options: ok, $OPS operations in $((SECONDS - began)) s"
    else tail -20 fsx.out; fail "fsx $options"; fi
    umount /mnt/c
  done
fi

if [ "${SERVER:-guest}" = guest ]; then
  kill "$server"; wait "$server" || fail "the server ended with $? on SIGTERM"
  ! grep -q 'panicked at' "$RESULTS/server.log" || fail "the server panicked"
fi
[ "${LAB_FAILED:-0}" = 0 ] || tail -20 "$RESULTS/server.log"
lab_end
