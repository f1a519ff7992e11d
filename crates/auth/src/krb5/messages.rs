//! The messages of RFC 4120 that a context is made with: AP-REQ, its ticket and authenticator, AP-REP. Each is decoded
//! from bytes that were bounded by its token, and encoded again for the other half. What is optional and of no use here
//! is looked at no further than to see where it ends.

use zeroize::Zeroizing;

use super::der::{
    self, Malformed, Reader, SEQUENCE, application, put, put_field, put_flags, put_integer, put_octets, put_string,
    put_time,
};
use super::etype::{Etype, Key};
use super::seal;

const TICKET: u8 = 1;
const AUTHENTICATOR: u8 = 2;
const ENC_TICKET_PART: u8 = 3;
const AP_REQ: u8 = 14;
const AP_REP: u8 = 15;
const ENC_AP_REP_PART: u8 = 27;

/// The version of the protocol.
const PVNO: i64 = 5;
/// Parts of a name.
const MOST_PARTS: usize = 16;

/// The options and flags that are looked at, the first bit of the string the highest.
pub(super) const OPTION_USE_SESSION_KEY: u32 = 1 << 30;
pub(super) const OPTION_MUTUAL: u32 = 1 << 29;
pub(super) const FLAG_INVALID: u32 = 1 << 24;
pub(super) const FLAG_PATH_CHECKED: u32 = 1 << 19;

/// What is encrypted where (RFC 4120 7.5.1).
pub(super) const USAGE_TICKET: u32 = 2;
pub(super) const USAGE_AUTHENTICATOR: u32 = 11;
pub(super) const USAGE_AP_REP: u32 = 12;

/// A name in a realm. Written `user@REALM` or `service/host@REALM`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The name's parts.
    pub parts: Box<[Box<str>]>,
    /// The realm.
    pub realm: Box<str>,
}

impl Principal {
    /// A user's.
    pub fn user(name: &str, realm: &str) -> Self {
        Self { parts: [name.into()].into(), realm: realm.into() }
    }

    /// A service's on a host.
    pub fn service(service: &str, host: &str, realm: &str) -> Self {
        Self { parts: [service.into(), host.into()].into(), realm: realm.into() }
    }

    /// Whether it is the service's on whatever host.
    pub fn is_service(&self, service: &str) -> bool {
        matches!(&*self.parts, [first, _] if **first == *service)
    }

    fn decode(r: &mut Reader<'_>) -> Result<Box<[Box<str>]>, Malformed> {
        let mut name = r.element(SEQUENCE)?;
        name.field(0, Reader::int32)?;
        name.field(1, |r| {
            let mut list = r.element(SEQUENCE)?;
            let mut parts = Vec::new();
            while !list.is_empty() {
                if parts.len() == MOST_PARTS {
                    return Err(Malformed);
                }
                parts.push(list.string()?.into());
            }
            Ok(parts.into())
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        put(out, SEQUENCE, |out| {
            // NT-PRINCIPAL, or NT-SRV-HST: nobody depends on it (RFC 4120 6.2).
            put_field(out, 0, |out| put_integer(out, if self.parts.len() == 1 { 1 } else { 3 }));
            put_field(out, 1, |out| put(out, SEQUENCE, |out| self.parts.iter().for_each(|part| put_string(out, part))));
        });
    }
}

impl std::fmt::Display for Principal {
    /// As it is written for people: what would be taken for a mark has a backslash before it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, part) in self.parts.iter().enumerate() {
            if at > 0 {
                f.write_str("/")?;
            }
            for c in part.chars() {
                match c {
                    '/' | '@' | '\\' => write!(f, "\\{c}")?,
                    c if c.is_control() => write!(f, "{}", c.escape_default())?,
                    c => write!(f, "{c}")?,
                }
            }
        }
        write!(f, "@{}", self.realm.escape_debug())
    }
}

/// Something encrypted (RFC 4120 5.2.9).
#[derive(Clone, Copy)]
pub(super) struct Encrypted<'a> {
    pub etype: i32,
    pub version: Option<u32>,
    pub cipher: &'a [u8],
}

impl<'a> Encrypted<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut r = r.element(SEQUENCE)?;
        let etype = r.field(0, Reader::int32)?;
        let version = r.optional_field(1, Reader::uint32)?;
        let cipher = r.field(2, Reader::octets)?;
        r.end()?;
        Ok(Self { etype, version, cipher })
    }

    /// Decrypts with the key, if it is of that type.
    pub fn open(&self, key: &Key, usage: u32) -> Option<Zeroizing<Vec<u8>>> {
        (self.etype == key.etype() as i32).then(|| seal::open(key, usage, self.cipher).ok())?
    }
}

/// Encrypts what `fill` appends.
fn put_encrypted(
    out: &mut Vec<u8>,
    key: &Key,
    (usage, version): (u32, Option<u32>),
    confounder: seal::Confounder,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    let mut plain = Zeroizing::new(Vec::new());
    fill(&mut plain);
    let cipher = seal::seal(key, usage, confounder, &plain);
    put(out, SEQUENCE, |out| {
        put_field(out, 0, |out| put_integer(out, key.etype() as i64));
        if let Some(version) = version {
            put_field(out, 1, |out| put_integer(out, version.into()));
        }
        put_field(out, 2, |out| put_octets(out, &cipher));
    });
}

/// A key in a message: `None` for one of a type that is not taken.
fn decode_key(r: &mut Reader<'_>) -> Result<Option<Key>, Malformed> {
    let mut r = r.element(SEQUENCE)?;
    let etype = r.field(0, Reader::int32)?;
    let bytes = r.field(1, Reader::octets)?;
    r.end()?;
    Etype::from_number(etype).map(|etype| Key::new(etype, bytes).ok_or(Malformed)).transpose()
}

fn put_key(out: &mut Vec<u8>, key: &Key) {
    put(out, SEQUENCE, |out| {
        put_field(out, 0, |out| put_integer(out, key.etype() as i64));
        put_field(out, 1, |out| put_octets(out, key.bytes()));
    });
}

/// AP-REQ (RFC 4120 5.5.1), with its ticket (5.3).
pub(super) struct ApReq<'a> {
    pub options: u32,
    /// For whom the ticket is.
    pub service: Principal,
    pub ticket: Encrypted<'a>,
    pub authenticator: Encrypted<'a>,
}

impl<'a> ApReq<'a> {
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = outer(bytes, AP_REQ)?;
        head(&mut r, AP_REQ)?;
        let options = r.field(2, Reader::flags)?;
        let (service, ticket) = r.field(3, decode_ticket)?;
        let authenticator = r.field(4, Encrypted::decode)?;
        r.end()?;
        Ok(Self { options, service, ticket, authenticator })
    }
}

/// What `[APPLICATION n] SEQUENCE` holds; nothing may follow it.
fn outer(bytes: &[u8], n: u8) -> Result<Reader<'_>, Malformed> {
    let mut r = Reader::new(bytes);
    let mut inner = r.element(application(n))?;
    r.end()?;
    let fields = inner.element(SEQUENCE)?;
    inner.end()?;
    Ok(fields)
}

/// The version and the message's number.
fn head(r: &mut Reader<'_>, number: u8) -> Result<(), Malformed> {
    let pair = (r.field(0, Reader::integer)?, r.field(1, Reader::integer)?);
    if pair == (PVNO, number.into()) { Ok(()) } else { Err(Malformed) }
}

fn decode_ticket<'a>(r: &mut Reader<'a>) -> Result<(Principal, Encrypted<'a>), Malformed> {
    let mut ticket = r.element(application(TICKET))?;
    let mut r = ticket.element(SEQUENCE)?;
    ticket.end()?;
    if r.field(0, Reader::integer)? != PVNO {
        return Err(Malformed);
    }
    let realm = r.field(1, Reader::string)?.into();
    let parts = r.field(2, Principal::decode)?;
    let part = r.field(3, Encrypted::decode)?;
    r.end()?;
    Ok((Principal { parts, realm }, part))
}

/// EncTicketPart (RFC 4120 5.3).
pub(super) struct TicketPart {
    pub flags: u32,
    pub key: Option<Key>,
    pub client: Principal,
    /// The realms between the client's and this one are named.
    pub is_transited: bool,
    pub begins: i64,
    pub ends: i64,
}

impl TicketPart {
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = outer(bytes, ENC_TICKET_PART)?;
        let flags = r.field(0, Reader::flags)?;
        let key = r.field(1, decode_key)?;
        let realm = r.field(2, Reader::string)?.into();
        let parts = r.field(3, Principal::decode)?;
        let is_transited = r.field(4, |r| {
            let mut r = r.element(SEQUENCE)?;
            r.field(0, Reader::int32)?;
            let named = !r.field(1, Reader::octets)?.is_empty();
            r.end()?;
            Ok(named)
        })?;
        let authenticated = r.field(5, Reader::time)?;
        let begins = r.optional_field(6, Reader::time)?.unwrap_or(authenticated);
        let ends = r.field(7, Reader::time)?;
        // How long it may be renewed, addresses and authorization data say nothing to a file server.
        Ok(Self { flags, key, client: Principal { parts, realm }, is_transited, begins, ends })
    }
}

/// A ticket as a KDC makes it: what `service` can open with `key`.
pub(super) fn put_ticket(
    out: &mut Vec<u8>,
    service: &Principal,
    (key, version): (&Key, u32),
    part: &TicketPart,
    confounder: seal::Confounder,
) {
    put(out, application(TICKET), |out| {
        put(out, SEQUENCE, |out| {
            put_field(out, 0, |out| put_integer(out, PVNO));
            put_field(out, 1, |out| put_string(out, &service.realm));
            put_field(out, 2, |out| service.put(out));
            put_field(out, 3, |out| {
                put_encrypted(out, key, (USAGE_TICKET, Some(version)), confounder, |out| put_ticket_part(out, part));
            });
        });
    });
}

fn put_ticket_part(out: &mut Vec<u8>, part: &TicketPart) {
    put(out, application(ENC_TICKET_PART), |out| {
        put(out, SEQUENCE, |out| {
            put_field(out, 0, |out| put_flags(out, part.flags));
            put_field(out, 1, |out| part.key.iter().for_each(|key| put_key(out, key)));
            put_field(out, 2, |out| put_string(out, &part.client.realm));
            put_field(out, 3, |out| part.client.put(out));
            put_field(out, 4, |out| {
                put(out, SEQUENCE, |out| {
                    put_field(out, 0, |out| put_integer(out, 1));
                    put_field(out, 1, |out| put_octets(out, if part.is_transited { b"ELSEWHERE" } else { b"" }));
                });
            });
            put_field(out, 5, |out| put_time(out, part.begins));
            put_field(out, 6, |out| put_time(out, part.begins));
            put_field(out, 7, |out| put_time(out, part.ends));
        });
    });
}

/// Authenticator (RFC 4120 5.5.1).
pub(super) struct Authenticator<'a> {
    pub client: Principal,
    /// Its type and bytes.
    pub checksum: Option<(i32, &'a [u8])>,
    pub micros: i64,
    pub seconds: i64,
    /// The inner one is missing for a type that is not taken.
    pub subkey: Option<Option<Key>>,
    pub sequence: Option<u32>,
}

impl<'a> Authenticator<'a> {
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = outer(bytes, AUTHENTICATOR)?;
        if r.field(0, Reader::integer)? != PVNO {
            return Err(Malformed);
        }
        let realm = r.field(1, Reader::string)?.into();
        let parts = r.field(2, Principal::decode)?;
        let checksum = r.optional_field(3, |r| {
            let mut r = r.element(SEQUENCE)?;
            let checksum = (r.field(0, Reader::int32)?, r.field(1, Reader::octets)?);
            r.end()?;
            Ok(checksum)
        })?;
        let micros = r.field(4, Reader::integer)?;
        let seconds = r.field(5, Reader::time)?;
        let subkey = r.optional_field(6, decode_key)?;
        let sequence = r.optional_field(7, Reader::uint32)?;
        // Authorization data may follow.
        Ok(Self { client: Principal { parts, realm }, checksum, micros, seconds, subkey, sequence })
    }

    fn put(&self, out: &mut Vec<u8>) {
        put(out, application(AUTHENTICATOR), |out| {
            put(out, SEQUENCE, |out| {
                put_field(out, 0, |out| put_integer(out, PVNO));
                put_field(out, 1, |out| put_string(out, &self.client.realm));
                put_field(out, 2, |out| self.client.put(out));
                if let Some((kind, bytes)) = self.checksum {
                    put_field(out, 3, |out| {
                        put(out, SEQUENCE, |out| {
                            put_field(out, 0, |out| put_integer(out, kind.into()));
                            put_field(out, 1, |out| put_octets(out, bytes));
                        });
                    });
                }
                put_field(out, 4, |out| put_integer(out, self.micros));
                put_field(out, 5, |out| put_time(out, self.seconds));
                if let Some(Some(key)) = &self.subkey {
                    put_field(out, 6, |out| put_key(out, key));
                }
                if let Some(sequence) = self.sequence {
                    put_field(out, 7, |out| put_integer(out, sequence.into()));
                }
            });
        });
    }
}

/// Appends an AP-REQ. `ticket` is whole, as a KDC gave it.
pub(super) fn put_ap_req(
    out: &mut Vec<u8>,
    options: u32,
    ticket: &[u8],
    session: &Key,
    authenticator: &Authenticator<'_>,
    confounder: seal::Confounder,
) {
    put(out, application(AP_REQ), |out| {
        put(out, SEQUENCE, |out| {
            put_field(out, 0, |out| put_integer(out, PVNO));
            put_field(out, 1, |out| put_integer(out, AP_REQ.into()));
            put_field(out, 2, |out| put_flags(out, options));
            put_field(out, 3, |out| out.extend_from_slice(ticket));
            put_field(out, 4, |out| {
                put_encrypted(out, session, (USAGE_AUTHENTICATOR, None), confounder, |out| authenticator.put(out));
            });
        });
    });
}

/// EncAPRepPart (RFC 4120 5.5.2).
pub(super) struct ApRepPart {
    pub seconds: i64,
    pub micros: i64,
    pub subkey: Option<Key>,
    pub sequence: Option<u32>,
}

impl ApRepPart {
    /// Opens an AP-REP.
    pub fn open(bytes: &[u8], session: &Key) -> Option<Self> {
        let mut r = outer(bytes, AP_REP).ok()?;
        head(&mut r, AP_REP).ok()?;
        let part = r.field(2, Encrypted::decode).ok()?.open(session, USAGE_AP_REP)?;
        Self::decode(&part).ok()
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = outer(bytes, ENC_AP_REP_PART)?;
        let (seconds, micros) = (r.field(0, Reader::time)?, r.field(1, Reader::integer)?);
        let subkey = r.optional_field(2, decode_key)?.map(|key| key.ok_or(Malformed)).transpose()?;
        let sequence = r.optional_field(3, Reader::uint32)?;
        r.end()?;
        Ok(Self { seconds, micros, subkey, sequence })
    }

    /// Appends it as an AP-REP.
    pub fn put(&self, out: &mut Vec<u8>, session: &Key, confounder: seal::Confounder) {
        put(out, application(AP_REP), |out| {
            put(out, SEQUENCE, |out| {
                put_field(out, 0, |out| put_integer(out, PVNO));
                put_field(out, 1, |out| put_integer(out, AP_REP.into()));
                put_field(out, 2, |out| {
                    put_encrypted(out, session, (USAGE_AP_REP, None), confounder, |out| self.put_part(out));
                });
            });
        });
    }

    fn put_part(&self, out: &mut Vec<u8>) {
        put(out, application(ENC_AP_REP_PART), |out| {
            put(out, SEQUENCE, |out| {
                put_field(out, 0, |out| put_time(out, self.seconds));
                put_field(out, 1, |out| put_integer(out, self.micros));
                if let Some(key) = &self.subkey {
                    put_field(out, 2, |out| put_key(out, key));
                }
                if let Some(sequence) = self.sequence {
                    put_field(out, 3, |out| put_integer(out, sequence.into()));
                }
            });
        });
    }
}

impl From<der::Malformed> for super::Refused {
    fn from(_: der::Malformed) -> Self {
        Self::Malformed
    }
}
