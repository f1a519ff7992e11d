#!/bin/bash
# In the guest: Longshore beside ksmbd and knfsd on one tmpfs, each under the kernel's own client without a cache, one
# request at a time. Rounds are interleaved, the best of each server counts. File beside it: longshore.
#   ROUNDS=N   (default 4)      REPORT=1   print the table and don't judge it
# shellcheck source=/dev/null
. /usr/lib/lab.sh

rounds=${ROUNDS:-4}
mkdir -p /srv/t && mount -t tmpfs -o size=500m,mode=1777 tmpfs /srv/t || { fail tmpfs; lab_end; }
# The kernel servers first: ksmbd listens on every address.
start_ksmbd /srv/t 445 && start_nfsd /srv/t || { fail "the kernel's servers"; lab_end; }
LONGSHORE_PASSWORD=secret ./longshore serve share=/srv/t --smb 127.0.0.1:4450 --nfs 127.0.0.1:12049 --user alice >"$RESULTS/server.log" 2>&1 & server=$!
wait_port 4450 && wait_port 12049 || { cat "$RESULTS/server.log"; lab_end; }
mount_cifs /mnt/smb.kernel 445 127.0.0.1 cache=none && mount_cifs /mnt/smb.ours 4450 127.0.0.1 cache=none &&
  mount_nfs /mnt/nfs42.kernel 4.2 && mount_nfs /mnt/nfs42.ours 4.2 12049 127.0.0.1 /share &&
  mount_nfs /mnt/nfs3.kernel 3 '' 127.0.0.1 /srv/t && mount_nfs /mnt/nfs3.ours 3 12049 127.0.0.1 /share || { dmesg | tail -5; fail mount; lab_end; }
grep -E ' (cifs|nfs4?) ' /proc/mounts >"$RESULTS/mounts.txt"
for protocol in smb nfs42 nfs3; do for who in kernel ours; do
  dd if=/dev/zero of="/srv/t/$protocol.$who" bs=1M count=32 status=none; chmod 666 "/srv/t/$protocol.$who"
done; done

declare -A best
measure() { # PROTOCOL WHO DIRECTION BLOCK COUNT: KiB/s into best[] when it is more
  local file=/mnt/$1.$2/$1.$2 from rate
  from=${EPOCHREALTIME/./}
  if [ "$3" = read ]; then dd if="$file" of=/dev/null bs="$4k" count="$5" iflag=direct status=none
  else dd if=/dev/zero of="$file" bs="$4k" count="$5" oflag=direct conv=notrunc status=none; fi || { fail "$*"; return 1; }
  rate=$(($4 * $5 * 1000000 / (${EPOCHREALTIME/./} - from)))
  echo "$* $rate" >>"$RESULTS/rates.txt"
  [ "$rate" -le "${best[$1.$2.$3.$4]:-0}" ] || best[$1.$2.$3.$4]=$rate
}
for ((round = 0; round < rounds; round++)); do
  for cell in 4:1000 64:256 1024:32; do for direction in read write; do for protocol in smb nfs42 nfs3; do
    for who in kernel ours; do measure $protocol $who $direction "${cell%:*}" "${cell#*:}"; done
  done; done; done
done

printf 'SPEED %-6s %-6s %5s %10s %10s %6s\n' client what KiB 'kernel' 'ours MB/s' ratio
for protocol in smb nfs42 nfs3; do for direction in read write; do for block in 4 64 1024; do
  kernel=${best[$protocol.kernel.$direction.$block]:-0} ours=${best[$protocol.ours.$direction.$block]:-0}
  [ "$kernel" -gt 0 ] || { fail "no rate of the kernel's $protocol"; continue; }
  least=95; [ $block -gt 4 ] || least=70
  percent=$((100 * ours / kernel))
  printf 'SPEED %-6s %-6s %5d %10s %10s  %3d.%02d\n' $protocol $direction $block \
    "$((kernel * 1024 / 1000000)).$((kernel * 1024 / 100000 % 10))" "$((ours * 1024 / 1000000)).$((ours * 1024 / 100000 % 10))" $((percent / 100)) $((percent % 100))
  [ $percent -ge $least ] || [ "${REPORT:-0}" = 1 ] || fail "$protocol $direction of $block KiB: $percent % of the kernel's, not $least"
done; done; done
switches() { cat /proc/$server/task/*/status | awk -v n="$1" '/ctxt_switches/ {s += $2} END {print s / n}'; }
before=$(switches 1)
for protocol in smb nfs42 nfs3; do
  dd if=/mnt/$protocol.ours/$protocol.ours of=/dev/null bs=4k count=1000 iflag=direct status=none; after=$(switches 1)
  echo "SWITCHES $protocol: $((after - before)) of the server's for 1000 READs of 4 KiB"; before=$after
done
echo "congestion control: $(cat /proc/sys/net/ipv4/tcp_congestion_control)"
umount /mnt/*.ours /mnt/*.kernel
kill "$server"; wait "$server" || fail "the server ended with $? on SIGTERM"
! grep -q 'panicked at' "$RESULTS/server.log" || fail "the server panicked"
lab_end
