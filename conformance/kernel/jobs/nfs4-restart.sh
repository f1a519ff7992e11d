#!/bin/bash
# In the guest: a Longshore server is killed and started again under nfs.ko, with vers=4.0, 4.1 and 4.2: writers go on
# without an error, open files and locks are had again, and nobody waits longer than there is somebody to wait for.
# Then SMB's side of the table is asked for a file that the kernel holds a delegation on. Beside it: longshore.
#   conformance/kernel/run.sh conformance/kernel/jobs/nfs4-restart.sh target/release/longshore
# shellcheck source=/dev/null
. /usr/lib/lab.sh
mkdir -p /scratch/share /mnt/a /mnt/b && chmod 777 /scratch/share
cat >/tmp/l.toml <<'END'
[server]
smb = "off"
nfs = "127.0.0.1:2049"
state = "/scratch/state"
[limits]
nfs_lease_seconds = 20
[share.share]
path = "/scratch/share"
nfs_squash = "none"
END
pid=
start() { ./longshore serve --config /tmp/l.toml >>"$RESULTS/server.log" 2>&1 6>&- 7>&- & pid=$!; wait_port 2049 127.0.0.1 || { cat "$RESULTS/server.log"; lab_end; }; }
again() { kill -9 $pid; wait $pid 2>/dev/null; start; }

# held VERS OTHER: what one client holds over a restart, another one does not get.
held() {
  mount -t nfs -o "vers=$1,port=2049" 127.0.0.1:/share /mnt/a && mount -t nfs -o "vers=$2,port=2049" 127.0.0.1:/share /mnt/b || { dmesg | tail -3; fail "mount"; return 1; }
  : >/mnt/a/lock
  exec 6<>/mnt/a/lock && flock -n 6 || fail "lock" || return 1
  (for i in $(seq 1 300); do echo "line $i" || exit 1; sync -d /mnt/a/log; sleep 0.02; done >/mnt/a/log 2>/tmp/writer.err) & local writer=$!
  sleep 1; again; local began=$SECONDS
  echo fresh >/mnt/a/fresh || fail "a new file after a restart" || return 1
  local waited=$((SECONDS - began))
  say "vers=$1: the first new open after $waited s"
  [ $waited -lt 15 ] || { fail "a new open waited for a lease, though all who held anything were back"; return 1; }
  flock -n /mnt/b/lock -c true && { fail "the lock was lost"; return 1; }
  wait $writer || { cat /tmp/writer.err; fail "the writer had an error"; return 1; }
  [ "$(wc -l </scratch/share/log)" = 300 ] || fail "lines are missing" || return 1
  echo more >&6 && flock -u 6 && exec 6>&- && [ "$(cat /scratch/share/lock)" = more ] || fail "the open file" || return 1
  flock -w 20 /mnt/b/lock -c true || fail "the lock is free now" || return 1
  umount /mnt/a /mnt/b || fail umount || return 1
  echo "NFS vers=$1: held over a restart, ok"
}

# delegated VERS: what one client caches under a delegation another one sees.
delegated() {
  mount -t nfs -o "vers=$1,port=2049" 127.0.0.1:/share /mnt/a && mount -t nfs -o "vers=$2,port=2049" 127.0.0.1:/share /mnt/b || { fail "mount"; return 1; }
  for i in 1 2 3 4 5; do
    echo "first $i" >/mnt/a/d$i && cat /mnt/a/d$i >/dev/null && exec 7<>/mnt/a/d$i && echo "second $i" >&7
    [ "$(cat /mnt/b/d$i)" = "second $i" ] || { fail "d$i: another client reads what was before"; return 1; }
    echo "third $i" >/mnt/b/d$i; exec 7>&-
    [ "$(cat /mnt/a/d$i)" = "third $i" ] || { fail "d$i: it does not see another's write"; return 1; }
  done
  grep -A200 nfs /proc/self/mountstats | grep -E "^\s+DELEGRETURN:" | head -2
  umount /mnt/a /mnt/b; rm -f /scratch/share/*
  echo "NFS vers=$1 beside $2: delegations, ok"
}

start
delegated 4.2 4.1; delegated 4.1 4.0; delegated 4.0 4.2
held 4.2 4.1; held 4.1 4.2; held 4.0 4.2
grep -i panicked "$RESULTS/server.log" && fail "the server panicked"
lab_end
