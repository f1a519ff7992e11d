//! The little of DCE/RPC (C706, MS-RPCE) a file server needs on its named pipes: connection-oriented PDUs, NDR, the
//! server's side of a pipe as a machine of bytes, and the calls that list shares, describe the server and tell
//! who is behind a SID. No
//! authentication inside of RPC: the SMB session has already said who calls.

mod accounts;
mod lsarpc;
mod ndr;
mod pdu;
mod pipe;
mod policy;
mod samr;
mod srvsvc;
mod wkssvc;

pub use accounts::{Accounts, Directory, NoAccounts, Principal};
pub use lsarpc::Lsarpc;
pub use ndr::{NdrError, NdrReader, NdrWriter};
pub use pdu::{
    BadPdu, Bind, BindAck, BindResult, Context, HEADER_LEN, Header, PduType, RequestHead, ResponseHead, Syntax, flags,
};
pub use pdu::{encode_bind, encode_bind_ack, encode_bind_nak, encode_fault, encode_request, encode_response};
pub use pipe::{Fault, Interface, PipeError, PipeRead, RpcPipe};
pub use samr::Samr;
pub use srvsvc::{SHARE_ENUM, ServerInfo, Share, Srvsvc, share_enum_request, share_enum_response};
pub use wkssvc::Wkssvc;
