#!/bin/bash
# In the guest: nfs.ko mounts a Longshore server with vers=4.0, 4.1 and 4.2 and works on it. Beside it: longshore.
#   conformance/kernel/run.sh conformance/kernel/jobs/nfs4.sh target/release/longshore
# shellcheck source=/dev/null
. /usr/lib/lab.sh
mkdir -p /scratch/share /mnt/n && chmod 777 /scratch/share
cat >/tmp/l.toml <<'END'
[server]
smb = "off"
nfs = "127.0.0.1:2049"
state = "/scratch/state"
[limits]
nfs_lease_seconds = 10
[share.share]
path = "/scratch/share"
nfs_squash = "none"
END
./longshore serve --config /tmp/l.toml >"$RESULTS/server.log" 2>&1 &
wait_port 2049 127.0.0.1 || { cat "$RESULTS/server.log"; lab_end; }

# tree DIR: a tree of small files with links and modes goes in and comes back the same.
tree() {
  rm -rf /tmp/tree && mkdir -p /tmp/tree/a/b && cp /etc/*.conf /etc/passwd /tmp/tree/a/ && ln -s passwd /tmp/tree/a/link
  ln /tmp/tree/a/passwd /tmp/tree/a/b/hard && chmod 640 /tmp/tree/a/passwd && mkfifo /tmp/tree/fifo && : >/tmp/tree/empty
  cp -a /tmp/tree "$1/tree" && (cd /tmp/tree && tar cf - --sort=name .) | md5sum >/tmp/in.sum
  (cd "$1/tree" && tar cf - --sort=name .) | md5sum | cmp - /tmp/in.sum || fail "tree" || return 1
  rm -rf "$1/tree"
}

# locks DIR: a lock of one process keeps another out, and ends with it.
locks() {
  : >"$1/lock"
  flock "$1/lock" -c "flock -n $1/lock -c true && echo both" | grep -q both && { fail "two locks at once"; return 1; }
  flock -n "$1/lock" -c true || fail "lock after unlock" || return 1
  rm "$1/lock"
}

# open_unlinked DIR: a file without a name is read through the open that it still has.
open_unlinked() {
  echo text >"$1/gone" && exec 5<"$1/gone" && rm "$1/gone" && [ "$(cat <&5)" = text ] || fail "unlinked" || return 1
  exec 5<&-
}

# newer DIR: what 4.2 has.
newer() {
  setfattr -n user.color -v blue "$1/x" 2>/dev/null || : >"$1/x" && setfattr -n user.color -v blue "$1/x" || fail setfattr || return 1
  [ "$(getfattr --only-values -n user.color "$1/x")" = blue ] && getfattr "$1/x" | grep -q user.color || fail getfattr || return 1
  fallocate -l 1M "$1/x" && [ "$(stat -c %s "$1/x")" = 1048576 ] || fail fallocate || return 1
  fallocate -p -o 4096 -l 8192 "$1/x" || fail "punch" || return 1
  dd if=/dev/urandom of="$1/r" bs=64k count=16 status=none && cp --reflink=never "$1/r" "$1/s" && cmp "$1/r" "$1/s" || fail copy || return 1
  truncate -s 10M "$1/sparse" && echo end >>"$1/sparse" && cp --sparse=always "$1/sparse" /tmp/sp && cmp "$1/sparse" /tmp/sp || fail sparse || return 1
  rm "$1"/{x,r,s,sparse}
}

# acls DIR: an NFSv4 ACL is set, and is a POSIX one on the server.
acls() {
  : >"$1/acl" && nfs4_setfacl -a A::1234:RX "$1/acl" && nfs4_getfacl "$1/acl" | grep -q 1234 || fail "nfs4 acl" || return 1
  getfacl -n /scratch/share/acl | grep -q 'user:1234:r-x' || { getfacl -n /scratch/share/acl; fail "posix acl"; return 1; }
  rm "$1/acl"
}

for v in 4.0 4.1 4.2 4.2,nconnect=4; do
  if mount -t nfs -o "vers=$v,port=2049" 127.0.0.1:/share /mnt/n; then
    df /mnt/n | tail -1
    smoke /mnt/n && tree /mnt/n && locks /mnt/n && open_unlinked /mnt/n && acls /mnt/n && echo "NFS vers=$v: ok"
    case $v in 4.2*) newer /mnt/n && echo "NFS vers=$v: xattrs, ranges, copy ok";; esac
    umount /mnt/n || fail "umount $v"
  else dmesg | tail -5; fail "mount $v"; fi
done
mount -t nfs -o vers=4.2,port=2049 127.0.0.1:/ /mnt/n && [ -d /mnt/n/share ] && touch /mnt/n/share/f && [ -e /scratch/share/f ] && echo "pseudo root: ok" || fail "pseudo root"
lab_end
