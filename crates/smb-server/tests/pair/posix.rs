//! POSIX extensions: names, modes, what goes while it is open.

use smb_wire::NtStatus;
use smb_wire::fscc::{FileInfoClass, PosixInfo};
use smb_wire::smb2::{CreateOptions, CreateResponse, Disposition, NegotiateContext, POSIX_TAG};

use crate::util::client::{Client, Profile};
use crate::util::{OpenAs, World};

fn posix(world: &World) -> Client {
    world.logged_in(Profile { posix: POSIX_TAG.to_vec(), ..Profile::default() })
}

fn how(disposition: Disposition, mode: u32) -> OpenAs {
    let contexts = vec![(POSIX_TAG.to_vec(), mode.to_le_bytes().to_vec())];
    OpenAs { contexts, ..OpenAs::how(disposition) }
}

#[test]
fn it_is_offered_by_its_tag() {
    let world = World::new();
    let tags = |posix: Vec<u8>| {
        let mut client = world.client(Profile { posix, ..Profile::default() });
        client.negotiate().contexts.iter().any(|c| matches!(c, NegotiateContext::Posix(tag) if tag == POSIX_TAG))
    };
    assert!(tags(POSIX_TAG.to_vec()));
    assert!(tags([&[7; 16][..], POSIX_TAG].concat()));
    assert!(!tags(vec![7; 16]));
    let mut plain = world.anna();
    assert_eq!(plain.try_create("a", &how(Disposition::Create, 0o644)).err(), Some(NtStatus::INVALID_PARAMETER));
    let mut client = posix(&world);
    let long = OpenAs { contexts: vec![(POSIX_TAG.to_vec(), vec![0; 5])], ..OpenAs::default() };
    assert_eq!(client.try_create("a", &long).err(), Some(NtStatus::INVALID_PARAMETER));
}

#[test]
fn names_and_modes_are_what_they_are() {
    let world = World::new();
    let mut client = posix(&world);
    for (name, mode) in [("a:b", 0o600), ("A:b", 0o4751), ("x\\*? ", 0o640), ("aux.", 0o100644)] {
        let response = client.call(how(Disposition::Create, mode).message(name)).ok();
        let created = CreateResponse::decode(&response.bytes).unwrap();
        let context = created.contexts.get(POSIX_TAG).unwrap();
        assert_eq!(context[8..12], (mode & 0o7777).to_le_bytes(), "{name}");
        assert!(world.exists(name), "{name}");
        let (status, info) = client.query(created.handle, FileInfoClass::POSIX, 4096);
        assert_eq!((status, &info[PosixInfo::FIXED_LEN - 12..]), (NtStatus::SUCCESS, context), "{name}");
        client.close(created.handle);
    }
    let missing = client.try_create("X\\*? ", &how(Disposition::Open, 0));
    assert_eq!(missing.err(), Some(NtStatus::OBJECT_NAME_NOT_FOUND), "case matters");
    let plain = client.create("a\u{f022}b", &OpenAs::how(Disposition::Open));
    assert_eq!(client.query(plain, FileInfoClass::POSIX, 4096).0, NtStatus::INVALID_INFO_CLASS);
}

#[test]
fn an_open_file_goes_and_is_replaced() {
    let world = World::new();
    let mut client = posix(&world);
    client.write_file("a", b"one");
    let held = client.create("a", &OpenAs::how(Disposition::Open));
    let gone = client.create("a", &how(Disposition::Open, 0).options(CreateOptions::DELETE_ON_CLOSE));
    client.close(gone);
    assert!(!world.exists("a"));
    assert_eq!(client.read(held, 0, 10), b"one");
    client.write_file("a", b"two");
    assert_eq!(client.read_file("a").unwrap(), b"two", "the name is free at once");
    let other = client.create("a", &OpenAs::how(Disposition::Open));
    client.write_file("b", b"three");
    let moved = client.create("b", &how(Disposition::Open, 0));
    client.rename(moved, "a", true).unwrap();
    assert_eq!(client.read(other, 0, 10), b"two");
    assert_eq!(world.content("a").unwrap(), b"three");
    let disposed = client.create("a", &how(Disposition::Open, 0));
    client.dispose(disposed, true).unwrap();
    client.dispose(disposed, false).unwrap();
    client.close(disposed);
    assert!(world.exists("a"), "taken back");
}

#[test]
fn links_are_not_followed() {
    let world = World::new();
    world.put("file", b"");
    world.symlink("link", "file");
    let mut client = posix(&world);
    let plain = client.try_create("link", &how(Disposition::Open, 0));
    assert_eq!(plain.err(), Some(NtStatus::STOPPED_ON_SYMLINK));
    let link = client.create("link", &how(Disposition::Open, 0).options(CreateOptions::OPEN_REPARSE_POINT));
    let (_, info) = client.query(link, FileInfoClass::POSIX, 4096);
    assert_eq!(info[72..76], 0xa000_000c_u32.to_le_bytes());
    client.dispose(link, true).unwrap();
    client.close(link);
    assert!(world.exists("file") && !world.exists("link"));
}
