#!/bin/bash
# In the guest, where root may have as many descriptors as it likes: one SMB session opens 1,000 files again and again
# and keeps every handle. What the server's memory grows to, and what a further open costs. Files beside it: longshore,
# and opens, the client.
#   OPENS=N    handles (default 100000)      MOST_MIB=N   what the server may have in memory (default 200)
# shellcheck source=/dev/null
. /usr/lib/lab.sh

opens=${OPENS:-100000} most_kib=$((${MOST_MIB:-200} * 1024))
sysctl -qw fs.nr_open=1048576 fs.file-max=1000000; ulimit -n 300000 || { fail "the limit of descriptors"; lab_end; }
mkdir -p /scratch/share && chmod 777 /scratch/share && (cd /scratch/share && seq 0 999 | xargs touch && chmod 666 ./*)
export LONGSHORE_PASSWORD=pw
./longshore serve share=/scratch/share --smb 127.0.0.1:4450 --nfs off --user bench >"$RESULTS/server.log" 2>&1 & server=$!
wait_port 4450 || { cat "$RESULTS/server.log"; lab_end; }

rss_kib() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$server/status"; }
descriptors() { find "/proc/$server/fd" -mindepth 1 | wc -l; }
slab_kib() { sed -n 's/^Slab:[^0-9]*\([0-9]*\).*/\1/p' /proc/meminfo; }

before=$(rss_kib) slab=$(slab_kib)
coproc ./opens smb://bench@127.0.0.1:4450/share "$opens" 1000 2>&1
client=$COPROC_PID
read -r line <&"${COPROC[0]}"
held=$(rss_kib) fds=$(descriptors)
echo "OPENS: $line; server $before KiB before, $held KiB with $fds descriptors; kernel's slabs $(($(slab_kib) - slab)) KiB more"
echo >&"${COPROC[1]}"
wait "$client" || fail "the client ended with $?"

case $line in opens=*) eval "$line";; *) fail "the client: $line"; lab_end;; esac
[ "$held" -le "$most_kib" ] || fail "the server has $held KiB in memory, more than $most_kib"
# shellcheck disable=SC2154 # the client said them
[ "$last_ms" -le $((2 * first_ms)) ] || fail "a thousand opens took $last_ms ms at the end, $first_ms at the beginning"
for ((i = 0; i < 100; i++)); do [ "$(descriptors)" -gt 100 ] || break; sleep 0.1; done
[ "$(descriptors)" -le 100 ] || fail "$(descriptors) descriptors are left"
echo "OPENS: $(rss_kib) KiB after the session, $(descriptors) descriptors"
kill "$server"; wait "$server" || fail "the server ended with $? on SIGTERM"
! grep -q 'panicked at' "$RESULTS/server.log" || fail "the server panicked"
[ "${LAB_FAILED:-0}" = 0 ] || tail -20 "$RESULTS/server.log"
lab_end
