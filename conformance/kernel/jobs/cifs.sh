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
  # On all addresses, since nobody is shown the loopback interface to open a second channel to.
  LONGSHORE_PASSWORD=pw ./longshore serve share=/scratch/share --smb 0.0.0.0:4450 --nfs off --user bench >"$RESULTS/server.log" 2>&1 &
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

for options in vers=2.1 vers=2.1,sign vers=3.0 vers=3.0,sign vers=3.0,seal vers=3.1.1 vers=3.1.1,sign vers=3.1.1,seal vers=3.1.1,cache=strict vers=3.1.1,cache=none; do
  began=${EPOCHREALTIME/./}
  if ! mount_share /mnt/c "$options"; then fail "mount $options"; dmesg | tail -5; continue; fi
  if smoke /mnt/c && copy_and_compare /mnt/c; then
    echo "CIFS $options: ok, $(((${EPOCHREALTIME/./} - began) / 1000)) ms"
  else
    fail "$options"; dmesg | tail -5
  fi
  umount /mnt/c || fail "umount $options"
done

# Several channels of one session, each to another of the server's addresses: what is copied goes over all of them.
channels() { sed -n 's/.*Extra Channels: \([0-9]*\).*/\1/p' /proc/fs/cifs/DebugData | head -1; }
if [ "${SERVER:-guest}" = guest ]; then
  for last in 1 2 3 4; do ip addr add 10.9.0.$last/32 dev lo || fail "an address for the loopback interface"; done
  host=10.9.0.1
  for options in vers=3.1.1,multichannel,max_channels=4 vers=3.1.1,seal,multichannel,max_channels=4; do
    began=${EPOCHREALTIME/./}
    if ! mount_share /mnt/c "$options"; then fail "mount $options"; dmesg | tail -5; continue; fi
    extra=$(channels)
    if [ "${extra:-0}" != 3 ]; then fail "$options: ${extra:-no} channels beside the first"; cat /proc/fs/cifs/DebugData; fi
    if smoke /mnt/c && copy_and_compare /mnt/c; then echo "CIFS $options: ok, $(((${EPOCHREALTIME/./} - began) / 1000)) ms"
    else fail "$options"; dmesg | tail -5; fi
    umount /mnt/c || fail "umount $options"
  done
  host=127.0.0.1
fi

# POSIX extensions: modes and names are what they are, and a name goes whoever has the file open.
posix_works() { # MOUNT
  local d=$1 name
  smoke "$d" || return 1
  (umask 027; : >"$d/made"; mkdir "$d/sub"); chmod 4751 "$d/sub"
  [ "$(stat -c %a "$d/made")" = 640 ] && [ "$(stat -c '%a %F' "$d/sub")" = "4751 directory" ] || fail "modes: $(stat -c %a "$d"/*)" || return 1
  (umask 777; mkdir "$d/closed"); [ "$(stat -c %a "$d/closed")" = 0 ] || fail "a directory of mode 0" || return 1
  chmod 604 "$d/made"
  for name in 'a:b' 'c*?<>|"' 'back\slash' 'dot.' 'space ' UP up aux; do
    echo "$name" >"$d/$name" && [ "$(cat "$d/$name")" = "$name" ] || fail "the name $name" || return 1
  done
  umount "$d" && mount_share "$d" "$options" || fail "remount" || return 1
  [ "$(stat -c %a "$d/made")" = 604 ] || fail "chmod 604 made $(stat -c %a "$d/made")" || return 1
  [ "$(cd "$d" && printf '[%s]' *)" = "$(cd /scratch/share && printf '[%s]' *)" ] || fail "names: $(ls "$d")" || return 1
  mv "$d/sub" "$d/sub2" && ln "$d/made" "$d/linked" && [ "$(stat -c %h "$d/made")" = 2 ] || fail "rename, link" || return 1
  mkfifo /scratch/share/pipe && ln -s made /scratch/share/link || return 1
  [ "$(stat -c %F "$d/pipe")" = fifo ] && [ "$(readlink "$d/link")" = made ] || fail "a pipe, a link: $(ls -l "$d")" || return 1
  # What another client has open goes, and can be replaced; the other goes on with what it had.
  mkdir -p /mnt/other && mount.cifs "//$host/share" /mnt/other -o "username=bench,password=pw,port=$PORT,$options,nosharesock" || fail "second mount" || return 1
  exec 7</mnt/other/up 8</mnt/other/UP
  rm "$d/up" && [ ! -e /scratch/share/up ] || fail "an open file is removed" || return 1
  mv "$d/dot." "$d/UP" && [ "$(cat "$d/UP")" = dot. ] || fail "an open file is replaced" || return 1
  [ "$(cat <&7)" = up ] || fail "the open file that was removed" || return 1
  exec 7<&- 8<&-
  umount /mnt/other
  rm -r "${d:?}"/* && [ -z "$(ls -A "$d")" ] || fail "remove: $(ls "$d")"
}
if [ "${SERVER:-guest}" = guest ]; then
  options=vers=3.1.1,posix began=${EPOCHREALTIME/./}
  if mount_share /mnt/c "$options" && posix_works /mnt/c; then echo "CIFS $options: ok, $(((${EPOCHREALTIME/./} - began) / 1000)) ms"
  else fail "$options"; dmesg | tail -5; fi
  umount /mnt/c || fail "umount $options"
fi

# fsx with the client's cache, with what leases allow of it, and without.
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
  for options in vers=3.1.1,cache=loose vers=3.1.1,cache=strict vers=3.1.1,cache=none; do
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
