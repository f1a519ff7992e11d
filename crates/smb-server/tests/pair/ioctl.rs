//! Controls (MS-SMB2 3.3.5.15): copies inside the server, holes, links.

use smb_wire::NtStatus;
use smb_wire::codec::Put;
use smb_wire::fscc::SymlinkReparse;
use smb_wire::name::utf16le;
use smb_wire::smb2::{CreateOptions, Disposition, FileHandle, IoctlResponse, OplockBreak, fsctl, oplock};

use crate::util::ops::{READ, created, ioctl_message};
use crate::util::{Client, OpenAs, Response, World};

fn ioctl(client: &mut Client, handle: FileHandle, code: u32, input: &[u8], room: u32) -> Response {
    client.call(ioctl_message(handle, code, input, room))
}

fn output(response: &Response) -> Vec<u8> {
    IoctlResponse::decode(&response.bytes).unwrap().output.to_vec()
}

fn resume_key(client: &mut Client, handle: FileHandle) -> Vec<u8> {
    output(&ioctl(client, handle, fsctl::SRV_REQUEST_RESUME_KEY, &[], 32).ok())[..24].to_vec()
}

fn chunks(key: &[u8], chunks: &[(u64, u64, u32)]) -> Vec<u8> {
    let mut input = key.to_vec();
    input.put_u32(chunks.len() as u32);
    input.put_u32(0);
    for &(from, to, len) in chunks {
        input.put_u64(from);
        input.put_u64(to);
        input.put_u64(u64::from(len));
    }
    input
}

fn counts(response: &Response) -> Vec<u32> {
    output(response).chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect()
}

#[test]
fn chunks_are_copied_by_key() {
    let world = World::new();
    world.put("a", b"hello world");
    let (mut anna, mut other) = (world.anna(), world.anna());
    let (from, to) = (anna.create("a", &OpenAs::reader()), anna.create("b", &OpenAs::default()));
    let key = resume_key(&mut anna, from);
    let wanted = chunks(&key, &[(6, 0, 5), (0, 5, 5)]);
    let copied = ioctl(&mut anna, to, fsctl::SRV_COPYCHUNK, &wanted, 12).ok();
    assert_eq!(counts(&copied), [2, 0, 10]);
    assert_eq!(anna.read(to, 0, 10), b"worldhello");

    // Past the end: what was done before is told.
    let beyond = chunks(&key, &[(0, 0, 5), (8, 5, 5)]);
    let stopped = ioctl(&mut anna, to, fsctl::SRV_COPYCHUNK_WRITE, &beyond, 12).expect(NtStatus::INVALID_VIEW_SIZE);
    assert_eq!(counts(&stopped), [1, 0, 5]);

    // More than is allowed: the limits are told.
    let many = chunks(&key, &vec![(0, 0, 1); 257]);
    let refused = ioctl(&mut anna, to, fsctl::SRV_COPYCHUNK, &many, 12).expect(NtStatus::INVALID_PARAMETER);
    assert_eq!(counts(&refused), [256, 1 << 20, 16 << 20]);

    // A key is worth nothing in another session, and nothing once its open is closed.
    let theirs = other.create("c", &OpenAs::default());
    ioctl(&mut other, theirs, fsctl::SRV_COPYCHUNK, &wanted, 12).expect(NtStatus::OBJECT_NAME_NOT_FOUND);
    anna.close(from);
    ioctl(&mut anna, to, fsctl::SRV_COPYCHUNK, &wanted, 12).expect(NtStatus::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn whatever_changes_data_is_told_to_who_caches_them() {
    let world = World::new();
    world.put("a", &[1; 8192]);
    world.put("b", &[2; 8192]);
    let (mut anna, mut reader) = (world.anna(), world.anna());
    let (from, to) = (anna.create("a", &OpenAs::reader()), anna.create("b", &OpenAs::default()));
    let key = resume_key(&mut anna, from);
    let zeros = [0u64.to_le_bytes(), 10u64.to_le_bytes()].concat();
    let trim = [&[0; 4][..], &1u32.to_le_bytes(), &0u64.to_le_bytes(), &8192u64.to_le_bytes()].concat();
    let changes = [
        (fsctl::SRV_COPYCHUNK, chunks(&key, &[(0, 0, 5)]), 12),
        (fsctl::SET_ZERO_DATA, zeros, 0),
        (fsctl::FILE_LEVEL_TRIM, trim, 4),
    ];
    for (code, input, room) in changes {
        let mut message = OpenAs::reader().message("b");
        message.body[3] = oplock::LEVEL_II;
        let cached = created(&reader.call(message)).unwrap().handle;
        ioctl(&mut anna, to, code, &input, room).ok();
        reader.drive();
        let told = reader.take(u64::MAX).map(|told| OplockBreak::decode(&told.bytes).unwrap());
        assert_eq!(told, Some(OplockBreak { level: oplock::NONE, handle: cached }), "{code:#x}");
        reader.close(cached);
    }
}

#[test]
fn extents_are_duplicated_within_both_files() {
    let world = World::new();
    world.put("a", &[1; 8192]);
    world.put("b", &[2; 8192]);
    let (mut anna, mut reader) = (world.anna(), world.anna());
    let (from, to) = (anna.create("a", &OpenAs::reader()), anna.create("b", &OpenAs::default()));
    let wanted = |source: FileHandle, at: u64, to: u64, len: u64| {
        let mut input = Vec::new();
        input.put_u64(source.persistent);
        input.put_u64(source.volatile);
        [at, to, len].into_iter().for_each(|number| input.put_u64(number));
        input
    };
    let mut clone = |anna: &mut Client, input: Vec<u8>| {
        let mut message = OpenAs::reader().message("b");
        message.body[3] = oplock::LEVEL_II;
        let cached = created(&reader.call(message)).unwrap().handle;
        let status = ioctl(anna, to, fsctl::DUPLICATE_EXTENTS_TO_FILE, &input, 0).status();
        reader.drive();
        let told = reader.take(u64::MAX).is_some();
        reader.close(cached);
        (status, told)
    };
    assert_eq!(clone(&mut anna, wanted(from, 0, 4096, 4096)), (NtStatus::SUCCESS, true), "who caches it is told");
    assert!(anna.read(to, 0, 9000) == [[2; 4096], [1; 4096]].concat());
    for beyond in [wanted(from, 4096, 0, 8192), wanted(from, 0, 4096, 8192)] {
        assert_eq!(clone(&mut anna, beyond).0, NtStatus::NOT_SUPPORTED);
    }
    assert_eq!(clone(&mut anna, wanted(to, 0, 100, 4096)).0, NtStatus::NOT_SUPPORTED, "it overlaps itself");
    assert_eq!(clone(&mut anna, wanted(to, 0, 4096, 4096)).0, NtStatus::SUCCESS);
    assert!(anna.read(to, 0, 9000) == [2; 8192]);
    assert_eq!(clone(&mut anna, wanted(from, u64::MAX, 0, 2)).0, NtStatus::INVALID_PARAMETER);
}

#[test]
fn trim_is_checked_and_leaves_a_file_without_holes_alone() {
    let world = World::new();
    world.put("a", &[7; 20_000]);
    let mut anna = world.anna();
    let file = anna.create("a", &OpenAs::default());
    let trim = |ranges: &[(u64, u64)]| {
        let mut input = vec![0; 4];
        input.put_u32(ranges.len() as u32);
        ranges.iter().for_each(|&(at, len)| {
            input.put_u64(at);
            input.put_u64(len);
        });
        input
    };
    let ranges = trim(&[(100, 9000), (19_000, 1 << 40)]);
    let answer = ioctl(&mut anna, file, fsctl::FILE_LEVEL_TRIM, &ranges, 4).ok();
    assert_eq!(counts(&answer), [2]);
    assert!(anna.read(file, 0, 30_000) == [7; 20_000], "this file system has none");
    ioctl(&mut anna, file, fsctl::FILE_LEVEL_TRIM, &trim(&[]), 4).expect(NtStatus::INVALID_PARAMETER);
    ioctl(&mut anna, file, fsctl::FILE_LEVEL_TRIM, &trim(&[(u64::MAX, 2)]), 4).expect(NtStatus::INVALID_PARAMETER);
    let lies = [&[0; 4][..], &9u32.to_le_bytes(), &[0; 16]].concat();
    ioctl(&mut anna, file, fsctl::FILE_LEVEL_TRIM, &lies, 4).expect(NtStatus::INVALID_PARAMETER);
}

#[test]
fn a_copy_needs_rights_on_both_ends() {
    let world = World::new();
    world.put("a", b"hello");
    let mut anna = world.anna();
    let (from, to) = (anna.create("a", &OpenAs::reader()), anna.create("b", &OpenAs::default()));
    let read_only = anna.create("b", &OpenAs::default().access(READ));
    let key = resume_key(&mut anna, from);
    let wanted = chunks(&key, &[(0, 0, 5)]);
    ioctl(&mut anna, read_only, fsctl::SRV_COPYCHUNK, &wanted, 12).expect(NtStatus::ACCESS_DENIED);
    let key = resume_key(&mut anna, to);
    ioctl(&mut anna, from, fsctl::SRV_COPYCHUNK, &chunks(&key, &[(0, 0, 1)]), 12).expect(NtStatus::ACCESS_DENIED);
}

#[test]
fn zeroed_ranges_and_what_is_allocated() {
    let world = World::new();
    world.put("a", b"hello world");
    let mut anna = world.anna();
    let file = anna.create("a", &OpenAs::default());
    let range = |a: u64, b: u64| [a.to_le_bytes(), b.to_le_bytes()].concat();
    // The file system of these tests keeps no holes.
    ioctl(&mut anna, file, fsctl::SET_SPARSE, &[], 0).expect(NtStatus::INVALID_DEVICE_REQUEST);
    ioctl(&mut anna, file, fsctl::SET_ZERO_DATA, &range(2, 100), 0).ok();
    assert_eq!(anna.read(file, 0, 100), b"he\0\0\0\0\0\0\0\0\0");
    ioctl(&mut anna, file, fsctl::SET_ZERO_DATA, &range(5, 2), 0).expect(NtStatus::INVALID_PARAMETER);
    ioctl(&mut anna, file, fsctl::SET_ZERO_DATA, &[0; 15], 0).expect(NtStatus::INVALID_PARAMETER);
    let all = ioctl(&mut anna, file, fsctl::QUERY_ALLOCATED_RANGES, &range(1, 1000), 64).ok();
    assert_eq!(output(&all), range(1, 10));
    ioctl(&mut anna, file, fsctl::QUERY_ALLOCATED_RANGES, &range(0, 10), 15).expect(NtStatus::BUFFER_TOO_SMALL);
    ioctl(&mut anna, file, fsctl::QUERY_ALLOCATED_RANGES, &range(9, u64::MAX), 64).expect(NtStatus::INVALID_PARAMETER);
}

fn reparse(target: &str, relative: bool) -> Vec<u8> {
    let mut out = Vec::new();
    SymlinkReparse { target: &utf16le(target), relative }.put(&mut out);
    out
}

#[test]
fn links_are_made_read_and_followed() {
    let world = World::new();
    world.put("target", b"content");
    let mut anna = world.anna();
    let as_link = OpenAs::default().options(CreateOptions::OPEN_REPARSE_POINT);
    let made = anna.create("link", &as_link);
    ioctl(&mut anna, made, fsctl::GET_REPARSE_POINT, &[], 200).expect(NtStatus::NOT_A_REPARSE_POINT);
    for (target, relative) in [("..\\x", true), ("\\??\\C:\\x", false)] {
        ioctl(&mut anna, made, fsctl::SET_REPARSE_POINT, &reparse(target, relative), 0).expect(NtStatus::ACCESS_DENIED);
    }
    ioctl(&mut anna, made, fsctl::SET_REPARSE_POINT, &reparse("target", true), 0).ok();
    anna.close(made);
    assert_eq!(anna.read_file("link").unwrap(), b"content");

    let looks = OpenAs::how(Disposition::Open).access(READ_ATTRIBUTES).options(CreateOptions::OPEN_REPARSE_POINT);
    let link = anna.create("link", &looks);
    let read = ioctl(&mut anna, link, fsctl::GET_REPARSE_POINT, &[], 200).ok();
    assert_eq!(output(&read), reparse("target", true));
    ioctl(&mut anna, link, fsctl::GET_REPARSE_POINT, &[], 20).expect(NtStatus::BUFFER_TOO_SMALL);
}

const READ_ATTRIBUTES: smb_wire::fscc::AccessMask = smb_wire::fscc::AccessMask::FILE_READ_ATTRIBUTES;

#[test]
fn what_became_a_link_is_one_for_the_handle_it_was_made_through() {
    for directory in [false, true] {
        let world = World::new();
        let mut anna = world.anna();
        let kind = if directory { CreateOptions::DIRECTORY_FILE } else { CreateOptions::empty() };
        let options = kind | CreateOptions::OPEN_REPARSE_POINT | CreateOptions::DELETE_ON_CLOSE;
        let made = anna.create("link", &OpenAs::how(Disposition::Create).options(options));
        ioctl(&mut anna, made, fsctl::SET_REPARSE_POINT, &reparse("target", true), 0).ok();
        let read = ioctl(&mut anna, made, fsctl::GET_REPARSE_POINT, &[], 200).ok();
        assert_eq!(output(&read), reparse("target", true));
        let again = ioctl(&mut anna, made, fsctl::SET_REPARSE_POINT, &reparse("other", true), 0);
        again.expect(NtStatus::IO_REPARSE_TAG_MISMATCH);
        anna.close(made);
        assert!(!world.exists("link"), "it was to go when it is closed");
    }
}
