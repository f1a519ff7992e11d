#!/bin/bash
# In the guest: `longshore bench peers` with the kernel's servers among them. They take part, every run counts, and nothing
# of theirs is left set afterwards: not at the end, not after two Ctrl-C. One that serves somebody is left alone.
# File beside it: longshore.     RUNTIME=T   how long each run is measured (default 1s)
# shellcheck source=/dev/null
. /usr/lib/lab.sh

mkdir -p /srv/t && mount -t tmpfs -o size=500m,mode=1777 tmpfs /srv/t || { fail tmpfs; lab_end; }
short=(--runtime "${RUNTIME:-1s}" --ramp 100ms --size 4m --iodepth 2 --blocks 1)

peers() { # NAME ARG...: its exit code; what it says goes to $RESULTS/NAME.log
  local name=$1; shift
  ./longshore bench peers --dir /srv/t --first-port 21300 "$@" >"$RESULTS/$name.log" 2>&1
}
measured() { # NAME ARG...: as peers, and every run counts but those for which the host was too busy
  peers "$@" && return
  ! grep -aE '^longshore: block ' "$RESULTS/$1.log" | grep -avE 'disturbed: nothing of this program|no request completed in the time' && grep -aq '^INCOMPLETE' "$RESULTS/$1.log"
}
served() { # PEER NAME...: at least one run of it counts, in one of these
  local peer=$1 name; shift
  for name in "$@"; do ! grep -qaE "^$peer +[a-z]+ [0-9]+ KiB .{1,4} [0-9] +[0-9]" "$RESULTS/$name.log" || return 0; done
  fail "no run of $peer counts"
}
says() { grep -qF -e "$2" "$RESULTS/$1.log" || { fail "$1 does not say: $2"; tail -n 30 "$RESULTS/$1.log"; }; }
state() { # all that may be different afterwards
  ls -l /run/ksmbd.lock /tmp/ksmbd.lock 2>/dev/null
  find /etc /var/lib/nfs -type f -exec cksum {} + | sort -k 3
  for name in ksmbd.mountd rpc.mountd rpcbind smbd longshore; do pidof $name; done
  ls /srv/t
  ss -ltnH | awk '{print $4}' | sort
  grep -c ' nfsd ' /proc/mounts
  cut -d ' ' -f 2 /sys/class/ksmbd-control/stats 2>/dev/null
}
nfsd_state() {
  mount -t nfsd nfsd /proc/fs/nfsd
  for file in threads portlist versions nfsv4leasetime nfsv4gracetime nfsv4recoverydir; do echo "$file: $(cat /proc/fs/nfsd/$file 2>/dev/null)"; done
  umount /proc/fs/nfsd
  cat /sys/module/nfsd/parameters/cltrack_prog
  grep -v '^#' /proc/net/rpc/nfsd.export/content
}
unchanged() { # WHAT BEFORE AFTER
  [ "$2" = "$3" ] || { fail "$1 left something changed:"; diff <(echo "$2") <(echo "$3"); }
}

say "modules that are not loaded"
measured absent-smb "${short[@]}" --bs 64k --rw read --without-limit || fail "absent-smb: exit code $?"
says absent-smb "ksmbd is not available because the module ksmbd is not loaded"
peers absent-nfs --protocol nfs "${short[@]}" && fail "there was nobody to compare with"
says absent-nfs "knfsd is not available because the module nfsd is not loaded"

modprobe -q aesni_intel; modprobe ksmbd; modprobe nfsd
before=$(state) nfsd_before=$(nfsd_state)

say "SMB"
measured smb "${short[@]}" --bs 4k,256k --rw read,write,rw --connections 1,2 || { fail "smb: exit code $?"; cat "$RESULTS/smb.log"; }
says smb "ksmbd settings: [global]; tcp port = "
grep -aE '^ksmbd.* MiB|^ksmbd' "$RESULTS/smb.log" | cut -c1-150 | tail -n 12
served ksmbd smb
unchanged smb "$before" "$(state)"

for version in 3 4.0 4.1 4.2; do
  say "NFS $version"
  case $version in 4.0 | 4.1) cells="--bs 4k --rw rw";; *) cells="--bs 4k,256k --rw read,write,rw --connections 1,2";; esac
  # shellcheck disable=SC2086
  measured "nfs$version" --protocol nfs --nfs-version $version "${short[@]}" $cells ||
    { fail "nfs$version: exit code $?"; cat "$RESULTS/nfs$version.log"; }
  says "nfs$version" "knfsd settings: 127.0.0.1:"
  grep -aE '^(knfsd|ganesha) ' "$RESULTS/nfs$version.log" | cut -c1-150 | tail -n 12; grep -a '^knfsd settings' "$RESULTS/nfs$version.log"
  unchanged "nfs$version" "$before" "$(state)"
  unchanged "nfs$version" "$nfsd_before" "$(nfsd_state)"
done

served knfsd nfs3; served knfsd nfs4.0 nfs4.1 nfs4.2

say "two Ctrl-C"
for protocol in smb nfs; do
  ./longshore bench peers --dir /srv/t --protocol $protocol --keep-files --runtime 100 --without-limit >"$RESULTS/ended-$protocol.log" 2>&1 & bench=$!
  for ((i = 0; i < 600; i++)); do [ -e /srv/t/longshore-bench.0 ] && break; sleep 0.1; done; sleep 2
  [ "$(cat /proc/fs/nfsd/threads 2>/dev/null)" = 16 ] || [ "$(cut -d ' ' -f 2 /sys/class/ksmbd-control/stats)" = running ] || fail "$protocol: nobody was started"
  kill -INT $bench && sleep 0.2; kill -INT $bench; wait $bench; rm -f /srv/t/longshore-bench.*
  unchanged "$protocol ended" "$before" "$(state)"
  unchanged "$protocol ended" "$nfsd_before" "$(nfsd_state)"
done

say "servers of somebody else"
start_ksmbd /srv/t 4450 && start_nfsd /srv/t || lab_end
theirs() { cat /proc/fs/nfsd/threads /proc/fs/nfsd/portlist /proc/fs/nfsd/versions /proc/fs/nfsd/nfsv4leasetime /var/lib/nfs/etab; pidof rpc.mountd; }
nfsd=$(theirs) ksmbd=$(cat /sys/class/ksmbd-control/stats)
measured busy-smb "${short[@]}" --bs 64k --rw read --without-limit || { fail "busy-smb: exit code $?"; tail -n 20 "$RESULTS/busy-smb.log"; }
says busy-smb "ksmbd is not available because it serves somebody else"
measured busy-nfs --protocol nfs "${short[@]}" --bs 64k --rw read --without-limit --target theirs='nfs://127.0.0.1/srv/t?version=3' ||
  { fail "busy-nfs: exit code $?"; tail -n 20 "$RESULTS/busy-nfs.log"; }
says busy-nfs "knfsd is not available because it serves somebody else"
unchanged "another's NFS server" "$nfsd" "$(theirs)"
[ "$ksmbd" = "$(cat /sys/class/ksmbd-control/stats)" ] || fail "another's ksmbd was changed"
stop_ksmbd; stop_nfsd
! grep -aq 'panicked at' "$RESULTS"/*.log || fail "something panicked"
lab_end
