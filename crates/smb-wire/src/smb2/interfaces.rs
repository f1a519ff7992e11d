//! NETWORK_INTERFACE_INFO: what FSCTL_QUERY_NETWORK_INTERFACE_INFO answers (MS-SMB2 2.2.32.5).

use std::net::IpAddr;

use crate::codec::Put;

/// Bytes of one entry: fixed part and SockAddr_Storage.
const ENTRY_BYTES: usize = 24 + 128;
/// RSS_CAPABLE.
const RSS_CAPABLE: u32 = 1;
/// InterNetwork and InterNetworkV6 (2.2.32.5.1).
const FAMILY_V4: u16 = 0x0002;
const FAMILY_V6: u16 = 0x0017;

/// One address of one network interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkInterface {
    /// The interface's number.
    pub index: u32,
    /// Whether it spreads what it receives over several queues.
    pub rss: bool,
    /// Its speed in bits a second.
    pub bits_per_second: u64,
    /// The address.
    pub address: IpAddr,
}

/// Appends the chain of `interfaces`.
pub fn put_network_interfaces(interfaces: &[NetworkInterface], out: &mut (impl Put + ?Sized)) {
    for (at, interface) in interfaces.iter().enumerate() {
        let is_last = at + 1 == interfaces.len();
        out.put_u32(if is_last { 0 } else { ENTRY_BYTES as u32 });
        out.put_u32(interface.index);
        out.put_u32(if interface.rss { RSS_CAPABLE } else { 0 });
        out.put_u32(0);
        out.put_u64(interface.bits_per_second);
        let begin = out.len();
        // Ports are 0: the client uses the one it is connected to.
        match interface.address {
            IpAddr::V4(address) => {
                out.put_u16(FAMILY_V4);
                out.put_u16(0);
                out.put_bytes(&address.octets());
            }
            IpAddr::V6(address) => {
                out.put_u16(FAMILY_V6);
                out.put_u16(0);
                out.put_u32(0);
                out.put_bytes(&address.octets());
            }
        }
        out.put_zeros((ENTRY_BYTES - 24).saturating_sub(out.len() - begin));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_152_bytes_and_chained() {
        let v4 = NetworkInterface {
            index: 2,
            rss: true,
            bits_per_second: 10_000_000_000,
            address: "192.0.2.1".parse().unwrap(),
        };
        let v6 = NetworkInterface { index: 3, rss: false, address: "2001:db8::1".parse().unwrap(), ..v4 };
        let mut bytes = Vec::new();
        put_network_interfaces(&[v4, v6], &mut bytes);
        assert_eq!(bytes.len(), 304);
        let fixed = [152, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xe4, 0x0b, 0x54, 2, 0, 0, 0];
        assert_eq!(bytes[..24], fixed);
        assert_eq!(bytes[24..32], [2, 0, 0, 0, 192, 0, 2, 1]);
        assert_eq!(bytes[152..164], [0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[176..188], [0x17, 0, 0, 0, 0, 0, 0, 0, 0x20, 1, 0x0d, 0xb8]);
        assert_eq!(bytes[199], 1);
    }
}
