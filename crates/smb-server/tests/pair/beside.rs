//! What is kept beside the data: security descriptors, named streams, extended attributes.

use smb_wire::NtStatus;
use smb_wire::fscc::{AccessMask, EaEntry, EaInfo, EaListWriter, FileInfoClass, ea_entries, stream_entries};
use smb_wire::name::from_utf16le;
use smb_wire::security::{Ace, AceFlags, AceKind, Acl, SecurityDescriptor, SecurityInfo, Sid};
use smb_wire::smb2::{Command, CreateOptions, Disposition, FileHandle, InfoType, SECURITY_TAG, SetInfoRequest};

use crate::util::client::Client;
use crate::util::ops::{READ, query_message};
use crate::util::{Message, OpenAs, World};

const REPAIR: AccessMask = AccessMask::READ_CONTROL.union(AccessMask::WRITE_DAC);

fn descriptor(aces: Vec<Ace>) -> SecurityDescriptor {
    SecurityDescriptor { dacl: Some(Acl { aces }), ..SecurityDescriptor::default() }
}

fn set_security(client: &mut Client, handle: FileHandle, parts: SecurityInfo, input: &[u8]) -> NtStatus {
    let request =
        SetInfoRequest { info_type: InfoType::Security as u8, class: 0, input, additional: parts.bits(), handle };
    client.call(Message::of(Command::SetInfo, |out| request.put(out))).status()
}

fn security(client: &mut Client, handle: FileHandle) -> SecurityDescriptor {
    let response = client.call(query_message(handle, InfoType::Security, 0, 4096)).ok();
    SecurityDescriptor::decode(response.output()).unwrap()
}

fn streams(client: &mut Client, handle: FileHandle) -> Vec<(String, u64)> {
    let (_, list) = client.query(handle, FileInfoClass::STREAM, 4096);
    stream_entries(&list).map(|entry| entry.unwrap()).map(|s| (from_utf16le(s.name), s.len_bytes)).collect()
}

#[test]
fn a_list_decides_who_may_open_and_its_owner_can_always_repair_it() {
    let world = World::new();
    let mut anna = world.anna();
    let file = anna.create("f", &OpenAs::how(Disposition::Create).access(REPAIR));
    let owner = security(&mut anna, file).owner.unwrap();
    let read_only = descriptor(vec![Ace::allow(owner, AccessMask::GENERIC_READ, AceFlags::empty())]);
    assert_eq!(set_security(&mut anna, file, SecurityInfo::DACL, &read_only.encode()), NtStatus::SUCCESS);
    let stored = security(&mut anna, file).dacl.unwrap().aces;
    assert!(
        matches!(&stored[0].body, smb_wire::security::AceBody::Access { mask, .. }
        if *mask == AccessMask::FILE_MAPPING.read),
        "generic rights become what they stand for"
    );
    anna.create("f", &OpenAs::reader());
    let writer = OpenAs::how(Disposition::Open).access(AccessMask::FILE_WRITE_DATA);
    assert_eq!(anna.try_create("f", &writer).map(drop), Err(NtStatus::ACCESS_DENIED));
    assert_eq!(
        anna.try_create("f", &OpenAs::how(Disposition::OverwriteIf).access(READ)).map(drop),
        Err(NtStatus::ACCESS_DENIED)
    );
    let repair = anna.create("f", &OpenAs::how(Disposition::Open).access(REPAIR));
    let all = descriptor(vec![Ace::allow(Sid::everyone(), AccessMask::FILE_ALL, AceFlags::empty())]);
    assert_eq!(set_security(&mut anna, repair, SecurityInfo::DACL, &all.encode()), NtStatus::SUCCESS);
    anna.create("f", &writer);
}

#[test]
fn what_is_made_below_inherits_and_what_is_sent_along_counts_more() {
    let world = World::new();
    let mut anna = world.anna();
    let dir = OpenAs::directory(Disposition::Create).access(REPAIR);
    let dir = anna.create("d", &dir);
    let flags = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
    let inheritable = descriptor(vec![Ace::allow(Sid::everyone(), AccessMask::FILE_ALL, flags)]);
    assert_eq!(set_security(&mut anna, dir, SecurityInfo::DACL, &inheritable.encode()), NtStatus::SUCCESS);
    let file = anna.create("d\\f", &OpenAs::how(Disposition::Create).access(REPAIR));
    let inherited = [Ace::allow(Sid::everyone(), AccessMask::FILE_ALL, AceFlags::empty())];
    assert_eq!(security(&mut anna, file).dacl.unwrap().aces, inherited);
    let sent = descriptor(vec![Ace { kind: AceKind::DENIED, ..inherited[0].clone() }]);
    let mut how = OpenAs::how(Disposition::Create).access(REPAIR);
    how.contexts.push((SECURITY_TAG.to_vec(), sent.encode()));
    let other = anna.create("d\\g", &how);
    assert_eq!(security(&mut anna, other).dacl.unwrap().aces, sent.dacl.unwrap().aces);
}

#[test]
fn descriptors_that_are_none_and_parts_without_the_right_are_refused() {
    let world = World::new();
    let mut anna = world.anna();
    let file = anna.create("f", &OpenAs::how(Disposition::Create).access(REPAIR));
    let good = descriptor(vec![Ace::allow(Sid::everyone(), AccessMask::FILE_ALL, AceFlags::empty())]).encode();
    for len in 0..good.len() {
        let status = set_security(&mut anna, file, SecurityInfo::DACL, &good[..len]);
        assert_eq!(status, NtStatus::INVALID_SECURITY_DESCR, "{len}");
    }
    for part in [SecurityInfo::OWNER, SecurityInfo::GROUP, SecurityInfo::SACL] {
        assert_eq!(set_security(&mut anna, file, part, &good), NtStatus::ACCESS_DENIED, "{part:?}");
    }
    let sacl = OpenAs::how(Disposition::Open).access(AccessMask::ACCESS_SYSTEM_SECURITY);
    assert_eq!(anna.try_create("f", &sacl).map(drop), Err(NtStatus::PRIVILEGE_NOT_HELD));
    let owner = anna.create("f", &OpenAs::how(Disposition::Open).access(AccessMask::WRITE_OWNER));
    let given = SecurityDescriptor { owner: Some(Sid::system()), ..SecurityDescriptor::default() }.encode();
    assert_eq!(set_security(&mut anna, owner, SecurityInfo::OWNER, &given), NtStatus::INVALID_OWNER);
}

#[test]
fn a_stream_holds_data_of_its_own_and_goes_with_its_file() {
    let world = World::new();
    let mut anna = world.anna();
    anna.write_file("f", b"data");
    anna.write_file("f:One", b"first");
    let file = anna.create("f", &OpenAs::default());
    let want = [("::$DATA".to_owned(), 4), (":One:$DATA".to_owned(), 5)];
    assert_eq!(streams(&mut anna, file), want);
    assert_eq!(anna.read_file("f:ONE:$data").unwrap(), b"first");
    assert_eq!(anna.read_file("f").unwrap(), b"data");
    assert_eq!(anna.try_create("f:two", &OpenAs::reader()).map(drop), Err(NtStatus::OBJECT_NAME_NOT_FOUND));
    let one = anna.create("f:one", &OpenAs::default());
    assert_eq!(anna.rename(file, "g", false), Err(NtStatus::ACCESS_DENIED), "while a stream is open");
    anna.close(file);
    let doomed = OpenAs::how(Disposition::Open).access(AccessMask::DELETE).options(CreateOptions::DELETE_ON_CLOSE);
    let doomed = anna.create("f", &doomed);
    anna.close(doomed);
    assert_eq!(anna.read(one, 0, 9), b"first");
    assert_eq!(anna.try_create("f", &OpenAs::reader()).map(drop), Err(NtStatus::DELETE_PENDING));
    assert_eq!(anna.try_create("f:one", &OpenAs::reader()).map(drop), Err(NtStatus::DELETE_PENDING));
    anna.close(one);
    assert!(!world.exists("f"));
}

#[test]
fn overwriting_a_file_takes_its_streams_and_deleting_a_stream_leaves_the_file() {
    let world = World::new();
    let mut anna = world.anna();
    anna.write_file("f", b"data");
    anna.write_file("f:a", b"1");
    anna.write_file("f:b", b"2");
    let gone = OpenAs::how(Disposition::Open).access(AccessMask::DELETE).options(CreateOptions::DELETE_ON_CLOSE);
    let gone = anna.create("f:a", &gone);
    anna.close(gone);
    let file = anna.create("f", &OpenAs::default());
    assert_eq!(streams(&mut anna, file), [("::$DATA".to_owned(), 4), (":b:$DATA".to_owned(), 1)]);
    anna.close(file);
    let file = anna.create("f", &OpenAs::how(Disposition::Overwrite));
    assert_eq!(streams(&mut anna, file), [("::$DATA".to_owned(), 0)]);
}

#[test]
fn extended_attributes_are_set_told_and_removed() {
    let world = World::new();
    let mut anna = world.anna();
    let file = anna.create("f", &OpenAs::default().access(AccessMask::FILE_ALL));
    assert_eq!(anna.query(file, FileInfoClass::FULL_EA, 4096).0, NtStatus::NO_EAS_ON_FILE);
    let one = |value: &[u8]| {
        let mut list = Vec::new();
        EaListWriter::new(&mut list, 4096).push(&EaEntry { flags: 0, name: b"EAONE", value });
        list
    };
    anna.set(file, FileInfoClass::FULL_EA, &one(b"VALUE1")).unwrap();
    let (status, list) = anna.query(file, FileInfoClass::FULL_EA, 4096);
    let eas: Vec<_> = ea_entries(&list).map(Result::unwrap).collect();
    assert_eq!((status, eas), (NtStatus::SUCCESS, vec![EaEntry { flags: 0, name: b"EAONE", value: b"VALUE1" }]));
    let (_, size) = anna.query(file, FileInfoClass::EA, 4096);
    assert_eq!(EaInfo::decode(&size).unwrap().ea_bytes, 4 + 5 + 5 + 6);
    anna.set(file, FileInfoClass::FULL_EA, &one(b"")).unwrap();
    assert_eq!(anna.query(file, FileInfoClass::FULL_EA, 4096).0, NtStatus::NO_EAS_ON_FILE);
}

#[test]
fn a_stream_can_be_larger_than_an_attribute() {
    let world = World::new();
    let mut client = world.anna();
    client.write_file("f", b"data");
    let content: Vec<u8> = (0..300_000u32).map(|at| (at / 7) as u8).collect();
    let stream = client.create("f:large", &OpenAs::default());
    for (index, part) in content.chunks(50_000).enumerate() {
        client.write(stream, index as u64 * 50_000, part);
    }
    assert!(client.read(stream, 60_000, 10_000) == content[60_000..70_000]);
    client.close(stream);
    let file = client.create("f", &OpenAs::default());
    assert_eq!(streams(&mut client, file), [("::$DATA".into(), 4), (":large:$DATA".into(), 300_000)]);
    let (_, list) = client.query(file, FileInfoClass::FULL_EA, 4096);
    assert_eq!(ea_entries(&list).count(), 0, "its attributes are nobody's");
    client.close(file);
    let stream = client.create("f:large", &OpenAs::default());
    assert!(client.read(stream, 0, 60_000) == content[..60_000]);
    assert_eq!(client.set_len(stream, 2 << 20), Err(NtStatus::DISK_FULL));
    client.set_len(stream, 10).unwrap();
    assert_eq!(client.read(stream, 0, 100), &content[..10]);
    client.dispose(stream, true).unwrap();
    client.close(stream);
    let file = client.create("f", &OpenAs::default());
    assert_eq!(streams(&mut client, file), [("::$DATA".into(), 4)]);
}
