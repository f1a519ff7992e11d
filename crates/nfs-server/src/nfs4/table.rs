//! The table of operations: which function does what. It reads like the list in RFC 8881 18, with what RFC 7530 and
//! RFC 7862 have besides. That an operation is of the compound's minor version is known before it is looked up here.

use nfs_wire::nfs4::{NfsStat4, Op};

use super::compound::Compound;
use super::failure::Answer;
use super::ops::{
    client, close, create, delegation, handles, io, listing, lock, names, object, open, ranges, session, stateid, xattr,
};
use crate::reply::ReplyWriter;

/// Does one operation.
pub fn run(c: &mut Compound, op: &Op<'_>, out: &mut ReplyWriter) -> Answer {
    match op {
        Op::Putfh(handle) => handles::putfh(c, handle, out),
        Op::Putrootfh | Op::Putpubfh => handles::putrootfh(c, out),
        Op::Getfh => handles::getfh(c, out),
        Op::Savefh => handles::savefh(c, out),
        Op::Restorefh => handles::restorefh(c, out),
        Op::Lookup(name) => names::lookup(c, name, out),
        Op::Lookupp => names::lookupp(c, out),
        Op::Secinfo(name) => names::secinfo(c, name, out),
        Op::SecinfoNoName(style) => names::secinfo_no_name(c, *style, out),
        Op::Access(asked) => object::access(c, *asked, out),
        Op::Getattr(request) => object::getattr(c, request, out),
        Op::Setattr(args) => object::setattr(c, args, out),
        Op::Verify(given) => object::verify(c, given, true, out),
        Op::Nverify(given) => object::verify(c, given, false, out),
        Op::Readlink => object::readlink(c, out),
        Op::Create(args) => create::create(c, args, out),
        Op::Remove(name) => names::remove(c, name, out),
        Op::Rename(args) => names::rename(c, args, out),
        Op::Link(name) => names::link(c, name, out),
        Op::Readdir(args) => listing::readdir(c, args, out),
        Op::Read(args) => io::read(c, args, out),
        Op::Write(args) => io::write(c, args, out),
        Op::Commit(args) => io::commit(c, args, out),
        Op::Open(args) => open::open(c, args, out),
        Op::OpenDowngrade(args) => close::open_downgrade(c, args, out),
        Op::Close(args) => close::close(c, args, out),
        Op::Lock(args) => lock::lock(c, args, out),
        Op::Lockt(args) => lock::lockt(c, args, out),
        Op::Locku(args) => lock::locku(c, args, out),
        Op::Delegpurge(client) => delegation::delegpurge(c, *client, out),
        Op::Delegreturn(stateid) => delegation::delegreturn(c, stateid, out),
        Op::GetDirDelegation(args) => delegation::get_dir_delegation(c, args, out),
        Op::WantDelegation(args) => delegation::want_delegation(c, args, out),
        Op::ExchangeId(args) => session::exchange_id(c, args, out),
        Op::CreateSession(args) => session::create_session(c, args, out),
        Op::DestroySession(id) => session::destroy_session(c, id, out),
        Op::DestroyClientid(id) => session::destroy_clientid(c, *id, out),
        Op::BindConnToSession(args) => session::bind_conn_to_session(c, args, out),
        Op::BackchannelCtl(args) => session::backchannel_ctl(c, args, out),
        Op::Sequence(args) => session::sequence(c, args, out),
        Op::ReclaimComplete(one_fs) => session::reclaim_complete(c, *one_fs, out),
        Op::TestStateid(stateids) => stateid::test_stateid(c, *stateids, out),
        Op::FreeStateid(id) => stateid::free_stateid(c, id, out),
        Op::Allocate(args) => ranges::allocate(c, args, out),
        Op::Deallocate(args) => ranges::deallocate(c, args, out),
        Op::Seek(args) => ranges::seek(c, args, out),
        Op::ReadPlus(args) => ranges::read_plus(c, args, out),
        Op::IoAdvise(args) => ranges::io_advise(c, args, out),
        Op::Copy(args) => ranges::copy(c, args, out),
        Op::Clone(args) => ranges::clone(c, args, out),
        Op::Getxattr(name) => xattr::getxattr(c, name, out),
        Op::Setxattr(args) => xattr::setxattr(c, args, out),
        Op::Listxattrs(args) => xattr::listxattrs(c, args, out),
        Op::Removexattr(name) => xattr::removexattr(c, name, out),
        op if c.minor == 0 => run_4_0(c, op, out),
        _ => Err(NfsStat4::NOTSUPP.into()),
    }
}

/// What only 4.0 has: from 4.1 on they are NOTSUPP (RFC 8881 17).
fn run_4_0(c: &mut Compound, op: &Op<'_>, out: &mut ReplyWriter) -> Answer {
    match op {
        Op::Setclientid(args) => client::setclientid(c, args, out),
        Op::SetclientidConfirm(args) => client::setclientid_confirm(c, args, out),
        Op::Renew(id) => client::renew(c, *id, out),
        Op::OpenConfirm(args) => close::open_confirm(c, args, out),
        Op::ReleaseLockowner(owner) => lock::release_lockowner(c, owner, out),
        _ => Err(NfsStat4::NOTSUPP.into()),
    }
}
