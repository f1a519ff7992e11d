//! Security identifiers, access control lists and security descriptors (MS-DTYP 2.4.2 to 2.4.6), and the two algorithms a
//! file server runs on them: whether somebody may (2.5.3.2) and what a new object inherits (2.5.3.4). Pure; where
//! descriptors are stored and who somebody is, the server knows.

mod access;
mod acl;
mod descriptor;
mod inherit;
mod sid;

pub use access::{Token, granted};
pub use acl::{Ace, AceBody, AceFlags, AceKind, Acl};
pub use descriptor::{BadDescriptor, Control, SecurityDescriptor, SecurityInfo};
pub use inherit::inherited;
pub use sid::Sid;
