//! NETWORK_INTERFACE_INFO: what FSCTL_QUERY_NETWORK_INTERFACE_INFO answers (MS-SMB2 2.2.32.5).

use std::net::IpAddr;

use crate::codec::{Put, Reader};

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

/// The entries of a chain that make sense; it ends where it does not go on.
pub fn read_network_interfaces(chain: &[u8]) -> impl Iterator<Item = NetworkInterface> {
    let mut rest = Some(chain);
    std::iter::from_fn(move || {
        let entry = rest.take()?;
        let next = Reader::new(entry).u32().ok()? as usize;
        // An entry that led back or into itself would never end.
        rest = (next >= ENTRY_BYTES).then(|| entry.get(next..)).flatten();
        Some(read_entry(entry))
    })
    .flatten()
}

fn read_entry(entry: &[u8]) -> Option<NetworkInterface> {
    let mut r = Reader::new(entry);
    r.skip(4).ok()?;
    let (index, capabilities) = (r.u32().ok()?, r.u32().ok()?);
    r.skip(4).ok()?;
    let bits_per_second = r.u64().ok()?;
    let family = r.u16().ok()?;
    r.skip(2).ok()?;
    let address = match family {
        FAMILY_V4 => IpAddr::from(r.array::<4>().ok()?),
        FAMILY_V6 => {
            r.skip(4).ok()?;
            IpAddr::from(r.array::<16>().ok()?)
        }
        _ => return None,
    };
    Some(NetworkInterface { index, rss: capabilities & RSS_CAPABLE != 0, bits_per_second, address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_read_as_it_was_put_and_nonsense_ends() {
        let v4 = NetworkInterface { index: 2, rss: true, bits_per_second: 7, address: "192.0.2.1".parse().unwrap() };
        let v6 = NetworkInterface { index: 3, rss: false, address: "2001:db8::1".parse().unwrap(), ..v4 };
        let mut bytes = Vec::new();
        put_network_interfaces(&[v4, v6, v4], &mut bytes);
        assert_eq!(read_network_interfaces(&bytes).collect::<Vec<_>>(), [v4, v6, v4]);
        for len in 0..bytes.len() {
            assert!(read_network_interfaces(&bytes[..len]).count() <= len / 28);
        }
        // A family nobody knows is passed over; an entry that leads into itself is the last.
        bytes[24] = 99;
        assert_eq!(read_network_interfaces(&bytes).count(), 2);
        for next in [1, 24, 151, u32::MAX] {
            bytes[..4].copy_from_slice(&next.to_le_bytes());
            assert_eq!(read_network_interfaces(&bytes).count(), 0, "{next}");
        }
    }

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
