#!/bin/bash
# In the guest: nfs.ko mounts a Longshore server with sec=krb5, krb5i and krb5p, versions 3 to 4.2, by way of rpc.gssd and a
# KDC of the guest's own. LAB_VERSIONS names others, LAB_ETYPES other ciphers.
#   conformance/kernel/nfs nfs-krb5
# shellcheck source=/dev/null
. /usr/lib/lab.sh
realm=LAB.TEST host=server.test
hostname $host && echo "127.0.0.1 $host localhost" >/etc/hosts
cat >/etc/krb5.conf <<END
[libdefaults]
default_realm = $realm
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
[realms]
$realm = {
    kdc = 127.0.0.1:88
}
[domain_realm]
test = $realm
END
mkdir -p /etc/krb5kdc /var/lib/krb5kdc
cat >/etc/krb5kdc/kdc.conf <<END
[realms]
$realm = {
    database_name = /var/lib/krb5kdc/principal
    key_stash_file = /var/lib/krb5kdc/stash
    supported_enctypes = ${LAB_ETYPES:-aes256-cts-hmac-sha1-96:normal}
}
END
export KRB5_KDC_PROFILE=/etc/krb5kdc/kdc.conf
kdb5_util create -s -r $realm -P master >/dev/null && krb5kdc || { fail "the KDC does not start"; lab_end; }
admin() { kadmin.local -r $realm "$@" >/dev/null || fail "kadmin $*"; }
admin addprinc -randkey nfs/$host; admin addprinc -randkey host/$host; admin addprinc -pw secret alice
admin ktadd -norandkey -k /scratch/server.keytab nfs/$host; admin ktadd -norandkey -k /etc/krb5.keytab host/$host
echo secret | kinit -c /tmp/krb5cc_1000 alice@$realm >/dev/null && chown 1000:1000 /tmp/krb5cc_1000

mkdir -p /scratch/share /mnt/n && chmod 777 /scratch/share
cat >/tmp/l.toml <<END
[server]
smb = "off"
nfs = "127.0.0.1:2049"
state = "/scratch/state"
keytab = "/scratch/server.keytab"
[limits]
nfs_lease_seconds = 10
[share.share]
path = "/scratch/share"
nfs_clients = ["127.0.0.1"]
nfs_sec = ["krb5p", "krb5i", "krb5"]
END
./longshore serve --config /tmp/l.toml >"$RESULTS/server.log" 2>&1 &
wait_port 2049 127.0.0.1 || { cat "$RESULTS/server.log"; lab_end; }

modprobe -q aesni_intel; modprobe -q cts; modprobe nfsv3; modprobe nfsv4; modprobe rpcsec_gss_krb5 || { fail "no rpcsec_gss_krb5"; lab_end; }
mkdir -p /run/rpc_pipefs && { mountpoint -q /run/rpc_pipefs || mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs; } || fail "no rpc_pipefs"
rpc.gssd -f -vv -p /run/rpc_pipefs >"$RESULTS/gssd.log" 2>&1 &
gssd=$!
sleep 1
kill -0 $gssd || { ls -a /run/rpc_pipefs; cat "$RESULTS/gssd.log"; fail "rpc.gssd does not run"; lab_end; }

alice() { setpriv --reuid=1000 --regid=1000 --clear-groups bash -c ". /usr/lib/lab.sh; $1"; }

for v in ${LAB_VERSIONS:-3 4.0 4.1 4.2 4.2,nconnect=4}; do
  for sec in krb5 krb5i krb5p; do
    o="vers=$v,proto=tcp,sec=$sec,port=2049"; case $v in 3) o+=,mountport=2049,mountproto=tcp,nolock;; esac
    if timeout 60 mount -t nfs -o "$o" $host:/share /mnt/n; then
      grep ' /mnt/n ' /proc/mounts | grep -q "sec=$sec" || fail "$v $sec: another flavor"
      alice "smoke /mnt/n" || fail "$v $sec"
      alice "echo text >/mnt/n/own" && [ "$(stat -c %u /scratch/share/own)" = 1000 ] || fail "$v $sec: alice's file is not hers"
      touch /mnt/n/machine && [ "$(stat -c %u /scratch/share/machine)" = 65534 ] || fail "$v $sec: root is not squashed"
      setpriv --reuid=1001 --regid=1001 --clear-groups cat /mnt/n/own >/dev/null 2>&1 && fail "$v $sec: bob has no ticket"
      rm -f /scratch/share/*
      umount /mnt/n && echo "NFS vers=$v sec=$sec: ok" || fail "umount $v $sec"
      rm -f /tmp/r
    else dmesg | tail -5; tail -20 "$RESULTS/gssd.log"; fail "mount $v $sec"; fi
  done
done
# Without a flavor the client asks which there are.
timeout 60 mount -t nfs -o vers=4.2,port=2049 $host:/share /mnt/n && grep ' /mnt/n ' /proc/mounts | grep -q sec=krb5p && echo "negotiated: ok" || fail "negotiation"
mountpoint -q /mnt/n && umount /mnt/n
timeout 60 mount -t nfs -o vers=4.2,sec=sys,port=2049 $host:/share /mnt/n 2>/dev/null && { ls /mnt/n >/dev/null 2>&1 && fail "sec=sys was taken"; umount /mnt/n; }
kill $gssd
lab_end
