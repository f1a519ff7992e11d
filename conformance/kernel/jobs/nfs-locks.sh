#!/bin/bash
# In the guest: nfs.ko locks over NFSv3 (NLM), from two hosts, and NFSv4 on one Longshore server in a network of its own,
# with port 111 its own: locks exclude each other, a waiting NLM client is called back, and locks outlive a restart of the
# server.
#   conformance/kernel/run.sh conformance/kernel/jobs/nfs-locks.sh target/release/longshore
# shellcheck source=/dev/null
. /usr/lib/lab.sh
modprobe veth; mkdir -p /scratch/share /mnt/three /mnt/four /mnt/second && chmod 777 /scratch/share
ip link set lo up; ip netns add server
ip link add client type veth peer name other; ip link set other netns server
ip addr add 10.9.0.2/24 dev client; ip link set client up
ip netns exec server sh -c 'ip link set lo up; ip addr add 10.9.0.1/24 dev other; ip link set other up'
# A second client is a network, a mount and a portmapper of its own.
ip netns add second; ip link add second netns second type veth peer name third netns server
ip netns exec second sh -c 'ip link set lo up; ip addr add 10.9.1.2/24 dev second; ip link set second up'
ip netns exec server sh -c 'ip addr add 10.9.1.1/24 dev third; ip link set third up'
cat >/tmp/longshore.toml <<'T'
[server]
smb = "off"
nfs = "0.0.0.0:2049"
portmapper = "own"
state = "/tmp/state"
[limits]
nfs_lease_seconds = 10
[share.share]
path = "/scratch/share"
nfs_clients = ["10.9.0.0/16"]
nfs_squash = "none"
T
start() { ip netns exec server env LONGSHORE_PASSWORD=pw ./longshore serve --config /tmp/longshore.toml --user bench >>"$RESULTS/server.log" 2>&1 & server=$!; wait_port 2049 10.9.0.1 && wait_port 111 10.9.0.1; }
start || { cat "$RESULTS/server.log"; lab_end; }
pidof rpcbind >/dev/null || rpcbind -w; rpc.statd --no-notify; modprobe nfsv3; modprobe nfsv4
rpcinfo -p 10.9.0.1 | grep nlockmgr >/dev/null && echo "rpcinfo: ok" || fail "rpcinfo"
mount -t nfs -o vers=3,proto=tcp 10.9.0.1:/share /mnt/three || fail "mount vers=3 without ports"
mount -t nfs -o vers=4.2,proto=tcp 10.9.0.1:/share /mnt/four || fail "mount vers=4.2"
echo 1 >/mnt/three/file
# Runs on the second host, which mounts the share first.
ip netns exec second unshare -m --propagation private sh -c 'mount -t tmpfs run /run; mkdir -p /run/rpcbind /tmp/sm; rpcbind -w; rpc.statd --no-notify
  mount -t nfs -o vers=3,proto=tcp 10.9.1.1:/share /mnt/second && touch /tmp/second-ready
  while [ ! -e /tmp/second-go ]; do sleep 0.2; done
  flock -n /mnt/second/file true && echo taken >/tmp/second-said || echo refused >/tmp/second-said
  t0=$(date +%s); flock /mnt/second/file true; echo waited $(($(date +%s) - t0)) >>/tmp/second-said; touch /tmp/second-done' &
hold() { flock "$1" sh -c "touch /tmp/held; sleep $2" & holder=$!; for ((i = 0; i < 100; i++)); do [ -e /tmp/held ] && break; sleep 0.1; done; rm -f /tmp/held; }
for ((i = 0; i < 100; i++)); do [ -e /tmp/second-ready ] && break; sleep 0.2; done
[ -e /tmp/second-ready ] || fail "the second host did not mount"
hold /mnt/three/file 8
touch /tmp/second-go
for ((i = 0; i < 150; i++)); do [ -e /tmp/second-done ] && break; sleep 0.2; done
if grep -q refused /tmp/second-said && [ "$(sed -n 's/waited //p' /tmp/second-said)" -lt 15 ]; then
  echo "NLM between two hosts: ok ($(tail -1 /tmp/second-said) s)"
else fail "the second host: $(cat /tmp/second-said)"; fi
wait $holder
hold /mnt/three/file 4
flock -n /mnt/four/file true && fail "a v4 lock over an NLM lock" || echo "NLM against v4: ok"
wait $holder
# A v4 client may keep its locks to itself until its delegation is asked for: NLM's client is told to try again later.
hold /mnt/four/file 15
flock -n /mnt/three/file true && fail "an NLM lock over a v4 lock" || echo "v4 against NLM: ok"
t0=$SECONDS; flock /mnt/three/file true && waited=$((SECONDS - t0))
[ "${waited:-99}" -lt 22 ] && echo "NLM waited $waited s and was called back: ok" || fail "no callback: $waited s"
hold /mnt/three/file 60
kill -9 $server; pkill -9 longshore 2>/dev/null; sleep 1; start
sleep 14
flock -n /mnt/four/file true && fail "the lock is gone after the restart" || echo "the lock was reclaimed: ok"
kill $holder; sleep 1; pkill sleep
timeout 20 flock /mnt/four/file true && echo "and is free again: ok" || fail "nobody gets it any more"
cat "$RESULTS/server.log" | tail -20; dmesg | tail -5
lab_end
