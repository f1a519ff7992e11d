//! Listing, asking and setting: QUERY_DIRECTORY, QUERY_INFO, SET_INFO, LOCK.

use std::time::Duration;

use smb_wire::NtStatus;
use smb_wire::fscc::{
    AccessMask, AllocationInfo, BasicInfo, DirInfoClass, FileAttributes, FileInfoClass, FileTime, FsInfoClass,
    FullSizeFsInfo, PositionInfo, SizeFsInfo, dir_entries,
};
use smb_wire::smb2::{CreateOptions, Disposition, InfoType, LockFlags, QueryDirectoryFlags};

use crate::util::client::Client;
use crate::util::ops::{READ, list_message, query_message, rename_info};
use crate::util::{OpenAs, World};

const NONE: QueryDirectoryFlags = QueryDirectoryFlags::empty();
const RESTART: QueryDirectoryFlags = QueryDirectoryFlags::RESTART_SCANS;
const SINGLE: QueryDirectoryFlags = QueryDirectoryFlags::RETURN_SINGLE_ENTRY;

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

fn open_directory(client: &mut Client, name: &str) -> smb_wire::smb2::FileHandle {
    client.create(name, &OpenAs::directory(Disposition::Open).access(READ))
}

#[test]
fn a_listing_shows_each_entry_once_however_small_the_buffer() {
    let world = World::new();
    world.mkdir("d");
    let mut names: Vec<_> = (0..100).map(|i| format!("file-{i:03}-{}", "n".repeat(i % 40))).collect();
    names.iter().for_each(|name| world.put(&format!("d/{name}"), b""));
    names.sort();
    let mut client = world.anna();
    for room in [230, 256, 300, 1000, 4096, 65536] {
        assert_eq!(sorted(client.list("d", "*", room).unwrap()), names, "{room} bytes");
    }
}

#[test]
fn every_class_lists_names_and_says_what_it_has() {
    let world = World::new();
    world.mkdir("d");
    world.put("d/file", b"12345");
    world.mkdir("d/sub");
    let mut client = world.anna();
    for class in [1, 2, 3, 12, 37, 38, 60, 63].map(|n| DirInfoClass::from_u8(n).unwrap()) {
        let handle = open_directory(&mut client, "d");
        let response = client.call(list_message(handle, class, NONE, "*", 4096)).ok();
        let entries: Vec<_> = dir_entries(class, response.output()).map(Result::unwrap).collect();
        let names: Vec<_> = entries.iter().map(|e| smb_wire::name::from_utf16le(e.name_utf16)).collect();
        assert_eq!(names, [".", "..", "file", "sub"], "{class:?}");
        if class != DirInfoClass::Names {
            assert_eq!(entries[2].end_of_file, 5);
            assert!(entries[3].attributes.contains(FileAttributes::DIRECTORY));
            assert!(entries[0].attributes.contains(FileAttributes::DIRECTORY));
        }
        client.call(list_message(handle, class, NONE, "*", 4096)).expect(NtStatus::NO_MORE_FILES);
        let short = class.fixed_len() as u32 - 1;
        client.call(list_message(handle, class, RESTART, "*", short)).expect(NtStatus::INFO_LENGTH_MISMATCH);
        client.close(handle);
    }
    let handle = open_directory(&mut client, "d");
    let mut message = list_message(handle, DirInfoClass::Names, NONE, "*", 4096);
    message.body[2] = 99;
    client.call(message).expect(NtStatus::INVALID_INFO_CLASS);
}

#[test]
fn single_entries_restart_and_a_new_pattern() {
    let world = World::new();
    for name in ["a.txt", "b.txt", "c.dat"] {
        world.put(name, b"");
    }
    let mut client = world.anna();
    let handle = open_directory(&mut client, "");
    let mut seen = Vec::new();
    while let Ok(names) = client.list_once(handle, SINGLE, "*", 4096) {
        assert_eq!(names.len(), 1);
        seen.extend(names);
    }
    assert_eq!(seen, [".", "..", "a.txt", "b.txt", "c.dat"]);
    // The pattern given first holds until a restart (MS-SMB2 3.3.5.18).
    assert_eq!(client.list_once(handle, NONE, "*.dat", 4096), Err(NtStatus::NO_MORE_FILES));
    assert_eq!(client.list_once(handle, RESTART, "*.dat", 4096).unwrap(), ["c.dat"]);
    assert_eq!(client.list_once(handle, NONE, "*", 4096), Err(NtStatus::NO_MORE_FILES));
    assert_eq!(client.list_once(handle, QueryDirectoryFlags::REOPEN, "*.txt", 4096).unwrap(), ["a.txt", "b.txt"]);
}

#[test]
fn patterns_find_what_they_should() {
    let world = World::new();
    for name in ["Alpha.txt", "beta.TXT", "gamma", "delta.tar.gz"] {
        world.put(name, b"");
    }
    let mut client = world.anna();
    for (pattern, expected) in [
        ("*.txt", vec!["Alpha.txt", "beta.TXT"]),
        ("ALPHA.TXT", vec!["Alpha.txt"]),
        ("?amma", vec!["gamma"]),
        ("*a", vec!["gamma"]),
        ("<.gz", vec!["delta.tar.gz"]),
        ("delta*", vec!["delta.tar.gz"]),
        ("", vec!["Alpha.txt", "beta.TXT", "delta.tar.gz", "gamma"]),
    ] {
        assert_eq!(sorted(client.list("", pattern, 4096).unwrap()), expected, "{pattern:?}");
    }
}

#[test]
fn nothing_found_is_not_nothing_left() {
    let world = World::new();
    world.put("a", b"");
    let mut client = world.anna();
    let handle = open_directory(&mut client, "");
    assert_eq!(client.list_once(handle, NONE, "missing*", 4096), Err(NtStatus::NO_SUCH_FILE));
    assert_eq!(client.list_once(handle, RESTART, "a", 4096).unwrap(), ["a"]);
    assert_eq!(client.list_once(handle, NONE, "a", 4096), Err(NtStatus::NO_MORE_FILES));
    assert_eq!(client.list_once(handle, RESTART, "missing", 4096), Err(NtStatus::NO_SUCH_FILE));
}

#[test]
fn a_name_too_long_for_the_buffer_says_so_and_stays() {
    let world = World::new();
    world.put(&"n".repeat(200), b"");
    let mut client = world.anna();
    let handle = open_directory(&mut client, "");
    client.list_once(handle, NONE, "*", 220).unwrap();
    assert_eq!(client.list_once(handle, NONE, "*", 220), Err(NtStatus::BUFFER_OVERFLOW));
    assert_eq!(client.list_once(handle, NONE, "*", 4096).unwrap(), ["n".repeat(200)]);
}

#[test]
fn a_listing_goes_on_while_the_directory_changes() {
    let world = World::new();
    world.mkdir("d");
    (0..20).for_each(|i| world.put(&format!("d/{i:02}"), b""));
    let mut client = world.anna();
    let handle = open_directory(&mut client, "d");
    let mut seen = Vec::new();
    for round in 0.. {
        match client.list_once(handle, SINGLE, "*", 4096) {
            Ok(names) => seen.extend(names),
            Err(NtStatus::NO_MORE_FILES) => break,
            Err(status) => panic!("{status:?}"),
        }
        if round == 5 {
            let doomed = client.create("d\\15", &OpenAs::default().options(CreateOptions::DELETE_ON_CLOSE));
            client.close(doomed);
            world.put("d/late", b"");
        }
    }
    for i in (0..20).filter(|i| *i != 15) {
        assert_eq!(seen.iter().filter(|n| **n == format!("{i:02}")).count(), 1, "{i}");
    }
}

#[test]
fn only_directories_are_listed_and_only_with_the_right() {
    let world = World::new();
    world.put("a", b"");
    world.mkdir("d");
    let mut client = world.anna();
    let file = client.create("a", &OpenAs::default());
    assert_eq!(client.list_once(file, NONE, "*", 4096), Err(NtStatus::INVALID_PARAMETER));
    let blind = OpenAs::directory(Disposition::Open).access(AccessMask::FILE_READ_ATTRIBUTES);
    let blind = client.create("d", &blind);
    assert_eq!(client.list_once(blind, NONE, "*", 4096), Err(NtStatus::ACCESS_DENIED));
    let dir = open_directory(&mut client, "d");
    assert_eq!(client.try_read(dir, 0, 10).unwrap_err(), NtStatus::INVALID_DEVICE_REQUEST);
    assert_eq!(client.list_once(dir, NONE, "a\\b", 4096), Err(NtStatus::OBJECT_NAME_INVALID));
}

#[test]
fn every_file_class_wants_its_room() {
    let world = World::new();
    world.put("name", b"12345");
    let mut client = world.anna();
    let handle = client.create("name", &OpenAs::default());
    for class in 0..=110 {
        let class = FileInfoClass(class);
        let (status, full) = client.query(handle, class, 4096);
        let Some(min) = class.query_min_len() else {
            assert_eq!(status, NtStatus::INVALID_INFO_CLASS, "{class:?}");
            continue;
        };
        for room in 0..min {
            assert_eq!(client.query(handle, class, room as u32).0, NtStatus::INFO_LENGTH_MISMATCH, "{class:?}, {room}");
        }
        if status.is_error() {
            continue;
        }
        assert!(!full.is_empty());
        for room in min..full.len() {
            let (status, part) = client.query(handle, class, room as u32);
            assert_eq!(status, NtStatus::BUFFER_OVERFLOW, "{class:?}, {room}");
            assert_eq!(part, full[..room], "what fits is the beginning");
        }
        assert_eq!(client.query(handle, class, full.len() as u32), (NtStatus::SUCCESS, full));
    }
}

#[test]
fn every_file_system_class_wants_its_room() {
    let world = World::new();
    world.put("a", b"");
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::reader());
    for class in 0..=20 {
        let Some(min) = FsInfoClass(class).query_min_len() else {
            client.call(query_message(handle, InfoType::FileSystem, class, 4096)).expect(NtStatus::INVALID_INFO_CLASS);
            continue;
        };
        let response = client.call(query_message(handle, InfoType::FileSystem, class, 4096));
        if response.status().is_error() {
            continue;
        }
        let full = response.output().to_vec();
        for room in 0..full.len() {
            let response = client.call(query_message(handle, InfoType::FileSystem, class, room as u32));
            let expected = if room < min { NtStatus::INFO_LENGTH_MISMATCH } else { NtStatus::BUFFER_OVERFLOW };
            assert_eq!(response.status(), expected, "class {class}, {room} bytes");
        }
    }
}

#[test]
fn who_has_a_quota_is_told_what_it_leaves() {
    let world = World::new();
    world.put("a", b"");
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::reader());
    let sizes = |client: &mut Client| {
        let full = query_message(handle, InfoType::FileSystem, FsInfoClass::FULL_SIZE.0, 4096);
        let size = query_message(handle, InfoType::FileSystem, FsInfoClass::SIZE.0, 4096);
        let full = FullSizeFsInfo::decode(client.call(full).ok().output()).unwrap();
        let size = SizeFsInfo::decode(client.call(size).ok().output()).unwrap();
        assert_eq!(size.available_units, full.caller_available_units);
        (full.caller_available_units, full.available_units)
    };
    let (mine, all) = sizes(&mut client);
    assert_eq!(mine, all);
    world.fs.set_quota(1000, 10 * 4096, 0);
    assert_eq!(sizes(&mut client), (10, all));
}

#[test]
fn a_security_descriptor_says_how_large_it_is() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    let full = client.call(query_message(handle, InfoType::Security, 0, 4096)).ok();
    let len = full.output().len() as u32;
    let small = client.call(query_message(handle, InfoType::Security, 0, len - 1)).expect(NtStatus::BUFFER_TOO_SMALL);
    let error = smb_wire::smb2::ErrorResponse::decode(&small.bytes).unwrap();
    assert_eq!(error.data, len.to_le_bytes());
    client.call(query_message(handle, InfoType::Security, 0, len)).ok();
}

#[test]
fn what_was_set_is_what_is_asked() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    let time = |days: i64| FileTime::from_unix(1_000_000_000 + days * 86_400, 123_456_700);
    let attributes = FileAttributes::HIDDEN | FileAttributes::ARCHIVE;
    let wanted =
        BasicInfo { created: time(1), accessed: time(2), written: time(3), changed: FileTime::ZERO, attributes };
    let mut info = Vec::new();
    wanted.encode(&mut info);
    client.set(handle, FileInfoClass::BASIC, &info).unwrap();
    let (_, output) = client.query(handle, FileInfoClass::BASIC, 40);
    let got = BasicInfo::decode(&output).unwrap();
    assert_eq!((got.created, got.accessed, got.written, got.attributes), (time(1), time(2), time(3), attributes));
    // Zeros leave everything as it is; NORMAL clears the attributes.
    let keep =
        BasicInfo { attributes: FileAttributes::NORMAL, created: FileTime::ZERO, accessed: FileTime::ZERO, ..wanted };
    let keep = BasicInfo { written: FileTime::ZERO, ..keep };
    info.clear();
    keep.encode(&mut info);
    client.set(handle, FileInfoClass::BASIC, &info).unwrap();
    let (_, output) = client.query(handle, FileInfoClass::BASIC, 40);
    let got = BasicInfo::decode(&output).unwrap();
    assert_eq!((got.created, got.written, got.attributes), (time(1), time(3), FileAttributes::NORMAL));
    client.close(handle);
    // They outlive the handle, and a write moves the time of the last write.
    world.clock.advance(Duration::from_secs(1000));
    let handle = client.create("a", &OpenAs::default());
    client.write(handle, 0, b"x");
    let (_, output) = client.query(handle, FileInfoClass::BASIC, 40);
    let got = BasicInfo::decode(&output).unwrap();
    assert_eq!(got.created, time(1));
    assert_eq!(got.written.to_unix().0, 1_700_001_000);
}

#[test]
fn every_answer_shows_the_change_time_that_was_set() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    let changed = FileTime::from_unix(1_000_000_000, 0);
    let mut info = Vec::new();
    BasicInfo { changed, ..BasicInfo::decode(&[0; 40]).unwrap() }.encode(&mut info);
    client.set(handle, FileInfoClass::BASIC, &info).unwrap();
    client.close(handle);
    let response = client.call(OpenAs::reader().message("a")).ok();
    let opened = smb_wire::smb2::CreateResponse::decode(&response.bytes).unwrap();
    assert_eq!(opened.times[3], changed.0, "CREATE");
    let (_, output) = client.query(opened.handle, FileInfoClass::BASIC, 40);
    assert_eq!(BasicInfo::decode(&output).unwrap().changed, changed, "QUERY_INFO");
}

#[test]
fn a_listing_of_eight_mebibytes_is_answered_in_parts() {
    let world = World::with(|config, _| config.max_transact_bytes = 8 << 20);
    world.mkdir("d");
    (0..12_000).for_each(|i| world.put(&format!("d/{i:05}"), b""));
    let mut client = world.anna();
    let handle = open_directory(&mut client, "d");
    while client.credits < 200 {
        client.call(crate::util::ops::echo_message());
    }
    let mut count = 0;
    let mut answers = 0;
    while let Ok(names) = client.list_once(handle, NONE, "*", 8 << 20) {
        (count, answers) = (count + names.len(), answers + 1);
        while client.credits < 200 {
            client.call(crate::util::ops::echo_message());
        }
    }
    assert_eq!(count, 12_002);
    assert!(answers > 1, "no buffer of that size was taken");
}

#[test]
fn attributes_that_cannot_be_are_refused() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    let set = |client: &mut Client, attributes, created| {
        let info = BasicInfo { attributes, created, ..BasicInfo::decode(&[0; 40]).unwrap() };
        let mut bytes = Vec::new();
        info.encode(&mut bytes);
        client.set(handle, FileInfoClass::BASIC, &bytes)
    };
    let refused = Err(NtStatus::INVALID_PARAMETER);
    assert_eq!(set(&mut client, FileAttributes::DIRECTORY, FileTime::ZERO), refused);
    assert_eq!(set(&mut client, FileAttributes::empty(), FileTime((-3i64) as u64)), refused);
    assert_eq!(set(&mut client, FileAttributes::empty(), FileTime((-1i64) as u64)), Ok(()));
    assert_eq!(client.set(handle, FileInfoClass::BASIC, &[0; 20]), Err(NtStatus::INFO_LENGTH_MISMATCH));
    assert_eq!(client.set(handle, FileInfoClass(250), &[0; 40]), Err(NtStatus::INVALID_INFO_CLASS));
}

#[test]
fn a_read_only_file_is_not_written() {
    let world = World::new();
    let mut client = world.anna();
    let how = OpenAs { attributes: FileAttributes::READONLY, ..OpenAs::how(Disposition::Create) };
    let handle = client.create("a", &how);
    client.write(handle, 0, b"who makes it may write");
    client.close(handle);
    assert_eq!(client.try_create("a", &OpenAs::default()).unwrap_err(), NtStatus::ACCESS_DENIED);
    assert_eq!(client.try_create("a", &OpenAs::how(Disposition::OverwriteIf)).unwrap_err(), NtStatus::ACCESS_DENIED);
    client.read_file("a").unwrap();
}

#[test]
fn length_and_allocation() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    client.write(handle, 0, b"123456");
    client.set_len(handle, 3).unwrap();
    assert_eq!(world.content("a").unwrap(), b"123");
    client.set_len(handle, 5).unwrap();
    assert_eq!(world.content("a").unwrap(), b"123\0\0");
    assert_eq!(client.set_len(handle, u64::MAX), Err(NtStatus::INVALID_PARAMETER));
    let allocate = |client: &mut Client, allocation_bytes| {
        let mut info = Vec::new();
        AllocationInfo { allocation_bytes }.encode(&mut info);
        client.set(handle, FileInfoClass::ALLOCATION, &info)
    };
    allocate(&mut client, 10_000).unwrap();
    assert_eq!(world.content("a").unwrap().len(), 5);
    allocate(&mut client, 2).unwrap();
    assert_eq!(world.content("a").unwrap(), b"12");
    let mut info = Vec::new();
    PositionInfo { offset: 77 }.encode(&mut info);
    client.set(handle, FileInfoClass::POSITION, &info).unwrap();
    assert_eq!(client.query(handle, FileInfoClass::POSITION, 8).1, 77u64.to_le_bytes());
}

#[test]
fn renames_within_and_between_directories() {
    let world = World::new();
    world.put("a", b"content");
    world.mkdir("Dir");
    world.put("taken", b"other");
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    client.rename(handle, "b", false).unwrap();
    client.rename(handle, "dir\\c", false).unwrap();
    assert!(world.exists("Dir/c") && !world.exists("a") && !world.exists("b"));
    let (_, name) = client.query(handle, FileInfoClass::NORMALIZED_NAME, 100);
    assert_eq!(smb_wire::name::from_utf16le(&name[4..]), "Dir\\c");
    assert_eq!(client.rename(handle, "taken", false), Err(NtStatus::OBJECT_NAME_COLLISION));
    assert_eq!(client.rename(handle, "TAKEN", false), Err(NtStatus::OBJECT_NAME_COLLISION));
    assert_eq!(client.rename(handle, "none\\x", false), Err(NtStatus::OBJECT_PATH_NOT_FOUND));
    assert_eq!(client.rename(handle, "a:stream", false), Err(NtStatus::INVALID_PARAMETER));
    assert!(client.rename(handle, "..\\x", false).is_err());
    assert!(client.rename(handle, "", false).is_err());
    client.rename(handle, "taken", true).unwrap();
    assert_eq!(world.content("taken").unwrap(), b"content");
    client.write(handle, 0, b"CONTENT");
    assert_eq!(world.content("taken").unwrap(), b"CONTENT");
}

#[test]
fn a_rename_may_change_the_case_only() {
    let world = World::new();
    world.put("readme", b"text");
    let mut client = world.anna();
    let handle = client.create("readme", &OpenAs::default());
    client.rename(handle, "README", false).unwrap();
    assert!(world.exists("README") && !world.exists("readme"));
    client.rename(handle, "README", false).unwrap();
    client.rename(handle, "ReadMe", true).unwrap();
    assert!(world.exists("ReadMe"));
}

#[test]
fn a_replaced_name_is_spelled_as_asked() {
    let world = World::new();
    world.put("a", b"new");
    world.put("TARGET", b"old");
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    client.rename(handle, "Target", true).unwrap();
    assert_eq!(world.content("Target").unwrap(), b"new");
    assert!(!world.exists("TARGET") && !world.exists("a"));
}

#[test]
fn an_open_file_is_not_replaced() {
    let world = World::new();
    world.put("a", b"new");
    world.put("b", b"old");
    let mut client = world.anna();
    let reader = client.create("b", &OpenAs::reader());
    let handle = client.create("a", &OpenAs::default());
    assert_eq!(client.rename(handle, "b", true), Err(NtStatus::ACCESS_DENIED));
    assert_eq!(world.content("b").unwrap(), b"old");
    client.close(reader);
    client.rename(handle, "b", true).unwrap();
}

#[test]
fn a_directory_does_not_move_into_itself() {
    let world = World::new();
    world.mkdir("d");
    world.mkdir("d/e");
    let mut client = world.anna();
    let handle = client.create("d", &OpenAs::directory(Disposition::Open));
    assert!(client.rename(handle, "d\\e\\f", false).is_err());
    assert!(client.rename(handle, "D\\f", false).is_err());
    assert!(world.exists("d/e"));
    client.rename(handle, "moved", false).unwrap();
    assert!(world.exists("moved/e"));
}

#[test]
fn a_rename_needs_the_right_and_the_others_consent() {
    let world = World::new();
    world.put("a", b"");
    let mut client = world.anna();
    let reader = client.create("a", &OpenAs::reader().share(1 | 2));
    assert_eq!(client.rename(reader, "b", false), Err(NtStatus::ACCESS_DENIED));
    let denied = client.try_create("a", &OpenAs::default()).unwrap_err();
    assert_eq!(denied, NtStatus::SHARING_VIOLATION, "the reader does not share deletion");
}

#[test]
fn a_file_gets_a_second_name() {
    let world = World::new();
    world.put("a", b"one");
    world.put("c", b"taken");
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    client.set(handle, FileInfoClass::LINK, &rename_info("b", false)).unwrap();
    client.write(handle, 0, b"ONE");
    assert_eq!(world.content("b").unwrap(), b"ONE");
    let (_, standard) = client.query(handle, FileInfoClass::STANDARD, 24);
    assert_eq!(standard[16], 2, "links");
    let taken = client.set(handle, FileInfoClass::LINK, &rename_info("c", false));
    assert_eq!(taken, Err(NtStatus::OBJECT_NAME_COLLISION));
    client.set(handle, FileInfoClass::LINK, &rename_info("c", true)).unwrap();
    assert_eq!(world.content("c").unwrap(), b"ONE");
    client.dispose(handle, true).unwrap();
    client.close(handle);
    assert!(!world.exists("a"));
    assert_eq!(world.content("b").unwrap(), b"ONE");
}

#[test]
fn a_link_that_fails_leaves_what_was_there() {
    let world = World::new();
    world.put("a", b"one");
    world.put("c", b"keep");
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    world.fs.fail_next(vfs::memfs::Op::Link, vfs::VfsError::TooManyLinks);
    let status = client.set(handle, FileInfoClass::LINK, &rename_info("c", true)).unwrap_err();
    assert_eq!(status, NtStatus::TOO_MANY_LINKS);
    assert_eq!(world.content("c").unwrap(), b"keep");
}

#[test]
fn ranges_are_locked_and_given_back() {
    let world = World::new();
    world.put("a", &[7; 100]);
    let mut client = world.anna();
    let one = client.create("a", &OpenAs::default());
    let two = client.create("a", &OpenAs::default());
    client.lock(one, 10, 10, LockFlags::EXCLUSIVE).unwrap();
    assert_eq!(client.lock(two, 15, 10, LockFlags::SHARED), Err(NtStatus::LOCK_NOT_GRANTED));
    assert_eq!(client.try_read(two, 15, 1), Err(NtStatus::FILE_LOCK_CONFLICT));
    assert_eq!(client.try_write(two, 0, &[0; 11]), Err(NtStatus::FILE_LOCK_CONFLICT));
    client.write(two, 20, &[1; 10]);
    client.write(one, 10, &[2; 10]);
    assert_eq!(client.set_len(two, 15), Err(NtStatus::FILE_LOCK_CONFLICT));
    assert_eq!(client.lock(two, 10, 10, LockFlags::UNLOCK), Err(NtStatus::RANGE_NOT_LOCKED));
    assert_eq!(client.lock(one, 10, 9, LockFlags::UNLOCK), Err(NtStatus::RANGE_NOT_LOCKED));
    client.lock(one, 10, 10, LockFlags::UNLOCK).unwrap();
    client.lock(one, 0, 5, LockFlags::SHARED).unwrap();
    client.lock(two, 0, 5, LockFlags::SHARED).unwrap();
    assert_eq!(client.try_write(one, 0, b"x"), Err(NtStatus::FILE_LOCK_CONFLICT), "one's own shared lock forbids too");
    client.close(one);
    client.lock(two, 10, 10, LockFlags::EXCLUSIVE).unwrap();
    assert_eq!(client.lock(two, u64::MAX, 2, LockFlags::EXCLUSIVE), Err(NtStatus::INVALID_LOCK_RANGE));
    let nonsense = LockFlags::SHARED | LockFlags::EXCLUSIVE;
    assert_eq!(client.lock(two, 50, 1, nonsense), Err(NtStatus::INVALID_PARAMETER));
    client.hang_up();
    world.assert_nothing_left();
}
