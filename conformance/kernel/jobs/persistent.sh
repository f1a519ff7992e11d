#!/bin/bash
# In the guest: a tree is copied to a continuously available share, through cifs.ko, over one that is there, again and
# again while the server is killed and started again: the copies see no error, and what arrives is what was sent. Also a
# file that is written and locked while it happens. Then the same with one large file. Files beside it: longshore and
# tree/, what is copied.
#
# What no server can answer for:
# - The directories are made before: cifs.ko tells a mkdir again whose answer it did not see, without anything a server
#   could know it by, and then finds the directory there. The same can happen to a file made exclusively in the moment of
#   the kill.
# - A WRITE that finds its socket dead while it is sent is lost in the client (README.md): the application is told
#   ECONNABORTED. Where the kernel's log says that this happened, the copy is begun again and counted; only there.
#   KILLS=N   how often in each part (default 3)
# shellcheck source=/dev/null
. /usr/lib/lab.sh

mkdir -p /scratch/share && chmod 777 /scratch/share
cat >longshore.toml <<T
[share.share]
path = "/scratch/share"
continuously_available = true
T
start() {
  LONGSHORE_PASSWORD=pw ./longshore serve --config longshore.toml --state /scratch/state --smb 127.0.0.1:4450 --user bench \
    >>"$RESULTS/server.log" 2>&1 &
  server=$!
  wait_port 4450
}
modprobe -q aesni_intel
start || { cat "$RESULTS/server.log"; lab_end; }
mount_share() { mkdir -p /mnt/c; mount.cifs //127.0.0.1/share /mnt/c -o username=bench,password=pw,port=4450,uid=0,gid=0,vers=3.1.1,persistenthandles,hard; }
mount_share || { fail mount; dmesg | tail -5; lab_end; }
grep -q ' /mnt/c .*persistenthandles' /proc/mounts || fail "the mount has no persistent handles"
smoke /mnt/c || fail smoke

sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
sums tree >/tmp/want

# Writes on through one handle, under a lock, until told to stop.
(set -e; exec 3>/mnt/c/written; n=0; flock -n 3
 while [ ! -e /tmp/stop ]; do printf '%015d\n' "$n" >&3; n=$((n + 1)); sleep 0.02; done
 flock -u 3; exec 3>&-; echo "$n" >/tmp/count) 2>/tmp/writer.err & writer=$!
cp -r tree /mnt/c/tree || fail "the first copy"

dead_sends() { dmesg | grep -c 'CIFS: .*sending data on socket to server'; }
# Copies until told to stop, at least once, and to the end. A copy that the client gave up is begun again.
copy() { # FROM TO
  local copies=0 given_up=0 before
  while [ ! -e /tmp/stop ] || [ "$copies" = 0 ]; do
    before=$(dead_sends)
    if cp -r "$1" "$2" 2>/tmp/copy.err; then
      copies=$((copies + 1))
    elif [ "$(dead_sends)" -gt "$before" ] && ! grep -qv ': Software caused connection abort$' /tmp/copy.err; then
      given_up=$((given_up + 1))
    else
      return 1
    fi
    # A copy that went well is there.
    [ ! -f "$1" ] || [ -s /tmp/copy.err ] || cmp "$1" "/scratch/share/${2#/mnt/c/}" 2>/tmp/copy.err || return 1
  done
  echo "$copies $given_up" >/tmp/copied
}
kills() { # what began at $began goes on meanwhile, as job $copy
  for ((kill = 1; kill <= ${KILLS:-3}; kill++)); do
    sleep $((2 + RANDOM % 2)).$((RANDOM % 1000))
    kill -9 "$server"; wait "$server" 2>/dev/null
    sleep 1
    start || lab_end
  done
  sleep 2; touch /tmp/stop
  wait "$copy" || { fail "the copy saw an error"; cat /tmp/copy.err; }
}
copied() { read -r copies given_up </tmp/copied; echo "$copies copies${1:-} past ${KILLS:-3} kills in $((SECONDS - began)) s; $given_up more the client gave up"; }

began=$SECONDS
copy tree/. /mnt/c/tree & copy=$!
kills
wait "$writer" || { fail "the writer saw an error"; cat /tmp/writer.err; }
echo "PERSISTENT: $(copied " and $(cat /tmp/count) writes")"

rm -f /tmp/stop /tmp/copied; head -c 67108864 /dev/urandom >/tmp/large
began=$SECONDS
copy /tmp/large /mnt/c/large & copy=$!
kills
echo "PERSISTENT, 64 MiB: $(copied)"

umount /mnt/c || fail umount
sums /scratch/share/tree >/tmp/got
cmp /tmp/want /tmp/got || fail "what was copied differs"
seq -f %015.0f 0 $(($(cat /tmp/count) - 1)) | cmp - /scratch/share/written || fail "what was written differs"
grep -o '[0-9]* *persistent handles wait\|.*persistent handle is lost.*' "$RESULTS/server.log"
kill "$server"; wait "$server" || fail "the server ended with $? on SIGTERM"
! grep -q 'panicked at' "$RESULTS/server.log" || fail "the server panicked"
[ "${LAB_FAILED:-0}" = 0 ] || { tail -20 "$RESULTS/server.log"; dmesg | tail -20; }
lab_end
