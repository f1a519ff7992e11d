//! CREATE and CLOSE: dispositions, share modes, deletion, names, and who may not.

use smb_server::{Access, ShareOptions};
use smb_wire::NtStatus;
use smb_wire::fscc::{AccessMask, DispositionExInfo, DispositionFlags, FileAttributes, FileInfoClass};
use smb_wire::smb2::{
    ALLOCATION_TAG, CloseRequest, CloseResponse, Command, CreateOptions, CreateResponse, Disposition,
    MAXIMAL_ACCESS_TAG, QUERY_ON_DISK_ID_TAG, TIMEWARP_TAG,
};
use vfs::{Backend, SetAttr};

use crate::util::ops::READ;
use crate::util::world::{OTHER, OTHER_PASSWORD, USER, cred_of, share};
use crate::util::{Message, OpenAs, Profile, World};

#[test]
fn every_disposition_on_what_is_and_is_not_there() {
    use Disposition::{Create, Open, OpenIf, Overwrite, OverwriteIf, Supersede};
    let (missing, taken) = (NtStatus::OBJECT_NAME_NOT_FOUND, NtStatus::OBJECT_NAME_COLLISION);
    // The action on a file that is there, its length after, and the action on one that is not.
    let table = [
        (Supersede, Ok((0, 0)), Ok(2)),
        (Open, Ok((1, 3)), Err(missing)),
        (Create, Err(taken), Ok(2)),
        (OpenIf, Ok((1, 3)), Ok(2)),
        (Overwrite, Ok((3, 0)), Err(missing)),
        (OverwriteIf, Ok((3, 0)), Ok(2)),
    ];
    for (disposition, there, not_there) in table {
        let world = World::new();
        world.put("there", b"old");
        let mut client = world.anna();
        let how = OpenAs::how(disposition);
        let result = client.try_create("there", &how).map(|c| (c.action, c.end_of_file));
        assert_eq!(result, there, "{disposition:?} on a file that exists");
        let len = there.map_or(3, |(_, len)| len);
        assert_eq!(world.content("there").unwrap().len() as u64, len);
        let result = client.try_create("new", &how).map(|c| c.action);
        assert_eq!(result, not_there, "{disposition:?} on none");
        assert_eq!(world.exists("new"), not_there.is_ok());
    }
}

#[test]
fn a_refused_create_changes_nothing() {
    let world = World::new();
    world.put("a", b"content");
    let mut client = world.anna();
    client.create("a", &OpenAs::reader().share(1));
    for disposition in [Disposition::Supersede, Disposition::Overwrite, Disposition::OverwriteIf] {
        let status = client.try_create("a", &OpenAs::how(disposition)).unwrap_err();
        assert_eq!(status, NtStatus::SHARING_VIOLATION, "{disposition:?}");
        assert_eq!(world.content("a").unwrap(), b"content");
    }
}

#[test]
fn directories_and_files_are_told_apart() {
    let world = World::new();
    world.put("file", b"");
    world.mkdir("dir");
    let mut client = world.anna();
    let mut status = |name: &str, how: OpenAs| client.try_create(name, &how).map(drop);
    assert_eq!(status("file", OpenAs::directory(Disposition::Open)), Err(NtStatus::NOT_A_DIRECTORY));
    let not_dir = OpenAs::how(Disposition::Open).options(CreateOptions::NON_DIRECTORY_FILE);
    assert_eq!(status("dir", not_dir), Err(NtStatus::FILE_IS_A_DIRECTORY));
    assert_eq!(status("dir", OpenAs::how(Disposition::OverwriteIf)), Err(NtStatus::FILE_IS_A_DIRECTORY));
    assert_eq!(status("new", OpenAs::directory(Disposition::OverwriteIf)), Err(NtStatus::INVALID_PARAMETER));
    let both = OpenAs::directory(Disposition::OpenIf).options(CreateOptions::NON_DIRECTORY_FILE);
    assert_eq!(status("new", both), Err(NtStatus::INVALID_PARAMETER));
    assert_eq!(status("dir", OpenAs::how(Disposition::Open)), Ok(()));
    assert_eq!(status("made", OpenAs::directory(Disposition::Create)), Ok(()));
    assert_eq!(status("made\\inside", OpenAs::how(Disposition::Create)), Ok(()));
    assert_eq!(status("file\\below", OpenAs::default()), Err(NtStatus::OBJECT_PATH_NOT_FOUND));
    assert_eq!(status("none\\below", OpenAs::default()), Err(NtStatus::OBJECT_PATH_NOT_FOUND));
    assert_eq!(status("", OpenAs::directory(Disposition::Open).access(READ)), Ok(()), "the share itself");
}

#[test]
fn fields_that_make_no_sense_are_refused() {
    let world = World::new();
    let mut client = world.anna();
    let mut status = |how: OpenAs| client.try_create("a", &how).map(drop).unwrap_err();
    assert_eq!(status(OpenAs::default().access(AccessMask::empty())), NtStatus::ACCESS_DENIED);
    assert_eq!(status(OpenAs::default().share(8)), NtStatus::INVALID_PARAMETER);
    let high = CreateOptions::from_bits_retain(0x8000_0000);
    assert_eq!(status(OpenAs::default().options(high)), NtStatus::INVALID_PARAMETER);
    assert_eq!(status(OpenAs::default().options(CreateOptions::OPEN_BY_FILE_ID)), NtStatus::NOT_SUPPORTED);
    let attributes = OpenAs { attributes: FileAttributes::from_bits_retain(0x8000_0000), ..OpenAs::default() };
    assert_eq!(status(attributes), NtStatus::INVALID_PARAMETER);
    let sacl = OpenAs::default().access(AccessMask::ACCESS_SYSTEM_SECURITY);
    assert_eq!(status(sacl), NtStatus::PRIVILEGE_NOT_HELD);
    let message = OpenAs::default().message("a");
    let mut bad = message.clone();
    bad.body[36] = 6;
    client.call(bad).expect(NtStatus::INVALID_PARAMETER);
    let mut bad = message;
    bad.body[4] = 4;
    client.call(bad).expect(NtStatus::BAD_IMPERSONATION_LEVEL);
    assert!(!world.exists("a"));
}

/// Every pair of what the first opens for and shares, and what the second does.
#[test]
fn share_modes_of_two_opens() {
    let rights = [(AccessMask::FILE_READ_DATA, 1), (AccessMask::FILE_WRITE_DATA, 2), (AccessMask::DELETE, 4)];
    for (first_access, first_needs) in rights {
        for (second_access, second_needs) in rights {
            for first_share in 0..8 {
                for second_share in 0..8 {
                    let world = World::new();
                    world.put("a", b"");
                    let mut client = world.anna();
                    let open = |access, share| OpenAs::how(Disposition::Open).access(access).share(share);
                    client.create("a", &open(first_access, first_share));
                    let result = client.try_create("a", &open(second_access, second_share)).map(drop);
                    let fits = first_share & second_needs != 0 && second_share & first_needs != 0;
                    let expected = if fits { Ok(()) } else { Err(NtStatus::SHARING_VIOLATION) };
                    assert_eq!(result, expected, "{first_access:?}/{first_share}, {second_access:?}/{second_share}");
                }
            }
        }
    }
}

#[test]
fn looking_at_attributes_conflicts_with_nothing() {
    let world = World::new();
    world.put("a", b"");
    let mut client = world.anna();
    client.create("a", &OpenAs::default().share(0));
    let look = OpenAs::reader().access(AccessMask::FILE_READ_ATTRIBUTES).share(0);
    client.create("a", &look);
    let mut other = world.anna();
    other.create("a", &look);
    assert_eq!(other.try_create("a", &OpenAs::reader()).unwrap_err(), NtStatus::SHARING_VIOLATION);
}

#[test]
fn delete_on_close_deletes_at_the_last_close() {
    let world = World::new();
    let mut client = world.anna();
    let doomed = client.create("a", &OpenAs::default().options(CreateOptions::DELETE_ON_CLOSE));
    let second = client.create("a", &OpenAs::default());
    client.close(doomed);
    assert!(world.exists("a"), "somebody has it open");
    assert_eq!(client.try_create("a", &OpenAs::default()).unwrap_err(), NtStatus::DELETE_PENDING);
    client.write(second, 0, b"works");
    client.close(second);
    assert!(!world.exists("a"));
    assert_eq!(world.server.open_count(), 0);
}

#[test]
fn a_pending_deletion_can_be_taken_back() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    client.dispose(handle, true).unwrap();
    let (_, standard) = client.query(handle, FileInfoClass::STANDARD, 24);
    assert_eq!(standard[20], 1, "DeletePending");
    assert_eq!(client.try_create("a", &OpenAs::default()).unwrap_err(), NtStatus::DELETE_PENDING);
    client.dispose(handle, false).unwrap();
    client.create("a", &OpenAs::default());
    client.close(handle);
    assert!(world.exists("a"));
}

#[test]
fn deletion_needs_the_right_and_a_file_that_lets_itself() {
    let world = World::new();
    world.put("a", b"");
    world.mkdir("full");
    world.put("full/x", b"");
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::reader());
    assert_eq!(client.dispose(handle, true).unwrap_err(), NtStatus::ACCESS_DENIED);
    let no_right = OpenAs::reader().options(CreateOptions::DELETE_ON_CLOSE);
    assert_eq!(client.try_create("a", &no_right).unwrap_err(), NtStatus::INVALID_PARAMETER);
    let full = client.create("full", &OpenAs::directory(Disposition::Open));
    assert_eq!(client.dispose(full, true).unwrap_err(), NtStatus::DIRECTORY_NOT_EMPTY);
    let root = client.create("", &OpenAs::directory(Disposition::Open).access(READ | AccessMask::DELETE));
    assert_eq!(client.dispose(root, true).unwrap_err(), NtStatus::CANNOT_DELETE);

    let how = OpenAs { attributes: FileAttributes::READONLY, ..OpenAs::how(Disposition::Create) };
    let read_only = client.create("ro", &how);
    assert_eq!(client.dispose(read_only, true).unwrap_err(), NtStatus::CANNOT_DELETE);
    let mut info = Vec::new();
    let flags = DispositionFlags::DELETE | DispositionFlags::IGNORE_READONLY_ATTRIBUTE;
    DispositionExInfo { flags }.encode(&mut info);
    client.set(read_only, FileInfoClass::DISPOSITION_EX, &info).unwrap();
    client.close(read_only);
    assert!(!world.exists("ro"));
}

#[test]
fn a_directory_goes_when_it_is_empty() {
    let world = World::new();
    world.mkdir("dir");
    let mut client = world.anna();
    let handle = client.create("dir", &OpenAs::directory(Disposition::Open));
    client.dispose(handle, true).unwrap();
    client.close(handle);
    assert!(!world.exists("dir"));
}

#[test]
fn what_is_in_a_directory_that_is_to_go_keeps_it() {
    let world = World::new();
    world.mkdir("dir");
    let mut client = world.anna();
    let handle = client.create("dir", &OpenAs::directory(Disposition::Open));
    client.dispose(handle, true).unwrap();
    world.put("dir/late", b"x");
    let status = client.try_close(handle).unwrap_err();
    assert_eq!(status, NtStatus::DIRECTORY_NOT_EMPTY);
    assert!(world.exists("dir/late"));
    assert_eq!(world.server.open_count(), 0, "the handle is closed all the same");
}

#[test]
fn deleting_a_link_deletes_the_link() {
    let world = World::new();
    world.put("target", b"precious");
    world.mkdir("tree");
    world.put("tree/x", b"precious");
    for (link, target) in [("link", "target"), ("linkdir", "tree"), ("dangling", "nothing")] {
        world.symlink(link, target);
        let mut client = world.anna();
        let how = OpenAs::how(Disposition::Open)
            .access(AccessMask::DELETE | AccessMask::FILE_READ_ATTRIBUTES)
            .options(CreateOptions::DELETE_ON_CLOSE);
        let handle = client.create(link, &how);
        client.close(handle);
        assert!(!world.exists(link), "{link}");
    }
    assert_eq!(world.content("target").unwrap(), b"precious");
    assert_eq!(world.content("tree/x").unwrap(), b"precious");
}

#[test]
fn deleting_through_a_link_with_all_rights_deletes_the_link() {
    let world = World::new();
    world.put("target", b"precious");
    world.symlink("link", "target");
    let mut client = world.anna();
    let handle = client.create("link", &OpenAs::how(Disposition::Open));
    client.dispose(handle, true).unwrap();
    client.close(handle);
    assert!(!world.exists("link"));
    assert_eq!(world.content("target").unwrap(), b"precious");
}

#[test]
fn links_that_lead_out_lead_nowhere() {
    let world = World::new();
    for (link, target) in [("up", "../outside"), ("abs", "/etc/passwd"), ("round", "round")] {
        world.symlink(link, target);
        let mut client = world.anna();
        let status = client.try_create(link, &OpenAs::reader()).unwrap_err();
        assert_eq!(status, NtStatus::OBJECT_PATH_NOT_FOUND, "{link}");
        let below = format!("{link}\\x");
        assert_eq!(client.try_create(&below, &OpenAs::reader()).unwrap_err(), NtStatus::OBJECT_PATH_NOT_FOUND);
    }
}

#[test]
fn a_broken_connection_does_the_deletions_it_owes() {
    let world = World::new();
    let mut client = world.anna();
    client.create("a", &OpenAs::default().options(CreateOptions::DELETE_ON_CLOSE));
    client.hang_up();
    assert!(!world.exists("a"));
    world.assert_nothing_left();
}

#[test]
fn a_read_only_share_refuses_every_change() {
    let world = World::with(|config, fs| {
        let options = ShareOptions { read_only: true, ..ShareOptions::default() };
        config.shares.extend([share("frozen", fs, options)]);
        let admitted = Access { read_only_users: vec!["Anna".into()], ..Access::default() };
        config.shares.extend([share("look", fs, ShareOptions { access: admitted, ..ShareOptions::default() })]);
    });
    world.put("a", b"content");
    for name in ["frozen", "look"] {
        let mut client = world.anna();
        client.tree_connect(name);
        assert_eq!(client.read_file("a").unwrap(), b"content");
        let mut denied = |name: &str, how: OpenAs| {
            let status = client.try_create(name, &how).map(drop).unwrap_err();
            assert_eq!(status, NtStatus::ACCESS_DENIED, "{how:?}");
        };
        for access in [
            AccessMask::FILE_WRITE_DATA,
            AccessMask::FILE_APPEND_DATA,
            AccessMask::FILE_WRITE_ATTRIBUTES,
            AccessMask::FILE_WRITE_EA,
            AccessMask::DELETE,
            AccessMask::WRITE_DAC,
            AccessMask::WRITE_OWNER,
            AccessMask::GENERIC_WRITE,
            AccessMask::GENERIC_ALL,
        ] {
            denied("a", OpenAs::how(Disposition::Open).access(access));
        }
        for disposition in [Disposition::Create, Disposition::OpenIf, Disposition::OverwriteIf, Disposition::Supersede]
        {
            denied("new", OpenAs::how(disposition).access(READ));
            denied("newdir", OpenAs::directory(Disposition::Create).access(READ));
        }
        denied("a", OpenAs::how(Disposition::Overwrite).access(READ));
        let all = OpenAs::how(Disposition::Open).access(AccessMask::MAXIMUM_ALLOWED);
        let handle = client.create("a", &all);
        assert_eq!(client.try_write(handle, 0, b"x").unwrap_err(), NtStatus::ACCESS_DENIED);
        assert_eq!(client.set_len(handle, 0).unwrap_err(), NtStatus::ACCESS_DENIED);
        assert_eq!(client.dispose(handle, true).unwrap_err(), NtStatus::ACCESS_DENIED);
        assert_eq!(client.rename(handle, "b", false).unwrap_err(), NtStatus::ACCESS_DENIED);
        let link = crate::util::ops::rename_info("b", false);
        assert_eq!(client.set(handle, FileInfoClass::LINK, &link).unwrap_err(), NtStatus::ACCESS_DENIED);
        let basic = vec![0; 40];
        assert_eq!(client.set(handle, FileInfoClass::BASIC, &basic).unwrap_err(), NtStatus::ACCESS_DENIED);
        client.close(handle);
        assert_eq!(world.content("a").unwrap(), b"content");
        assert!(!world.exists("b") && !world.exists("new") && !world.exists("newdir"));
    }
}

#[test]
fn shares_admit_whom_they_list() {
    let world = World::with(|config, fs| {
        let only = Access { users: vec![OTHER.into()], ..Access::default() };
        config.shares.extend([share("his", fs, ShareOptions { access: only, ..ShareOptions::default() })]);
    });
    let mut anna = world.anna();
    assert_eq!(anna.try_tree_connect("his").unwrap_err(), NtStatus::ACCESS_DENIED);
    let mut boris = world.logged_in(Profile::user(OTHER, OTHER_PASSWORD));
    boris.tree_connect("HIS");
}

#[test]
fn permissions_decide_as_the_user_who_logged_in() {
    let world = World::new();
    world.mkdir("private");
    world.put("private/a", b"secret");
    world.put("shown", b"public");
    let root = world.fs.root();
    let how = vfs::OpenHow {
        access: vfs::Access::empty(),
        disposition: vfs::Disposition::Open,
        kind: vfs::WantKind::Any,
        follow: false,
        mode: 0,
    };
    let path = crate::util::world::to_path("private");
    let dir = world.fs.open(&cred_of(USER), &*root, &path, &how, vfs::Wait::Allowed).unwrap().node;
    dir.set_attr(&cred_of(USER), &SetAttr { mode: Some(0o700), ..SetAttr::default() }).unwrap();
    let mut boris = world.logged_in(Profile::user(OTHER, OTHER_PASSWORD));
    let mut denied = |name: &str, how: OpenAs| {
        assert_eq!(boris.try_create(name, &how).map(drop).unwrap_err(), NtStatus::ACCESS_DENIED, "{name}");
    };
    denied("private\\a", OpenAs::reader());
    denied("private\\new", OpenAs::default());
    denied("private", OpenAs::directory(Disposition::Open).access(AccessMask::FILE_LIST_DIRECTORY));
    denied("shown", OpenAs::how(Disposition::Open).access(AccessMask::FILE_WRITE_DATA));
    denied("shown", OpenAs::how(Disposition::Open).access(AccessMask::WRITE_DAC));
    denied("shown", OpenAs::how(Disposition::Overwrite).access(READ));
    assert_eq!(boris.read_file("shown").unwrap(), b"public");
    assert_eq!(world.content("shown").unwrap(), b"public");
}

#[test]
fn names_are_found_ignoring_case_and_kept_as_they_are() {
    let world = World::new();
    world.put("README", b"text");
    world.mkdir("Docs");
    world.put("Docs/Größe.TXT", b"umlaut");
    let mut client = world.anna();
    assert_eq!(client.read_file("readme").unwrap(), b"text");
    assert_eq!(client.read_file("docs\\GRÖSSE.txt").unwrap_err(), NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(client.read_file("DOCS\\grÖßE.txt").unwrap(), b"umlaut");
    let create = OpenAs::how(Disposition::Create);
    assert_eq!(client.try_create("ReadMe", &create).unwrap_err(), NtStatus::OBJECT_NAME_COLLISION);
    assert_eq!(
        client.try_create("DOCS", &OpenAs::directory(Disposition::Create)).unwrap_err(),
        NtStatus::OBJECT_NAME_COLLISION
    );
    client.write_file("readme", b"changed");
    assert_eq!(world.content("README").unwrap(), b"changed");
    client.write_file("docs\\New", b"");
    assert!(world.exists("Docs/New"));
    world.put("readme", b"exact");
    assert_eq!(client.read_file("readme").unwrap(), b"exact", "the exact name wins");
    assert_eq!(client.read_file("README").unwrap(), b"changed");
}

#[test]
fn a_case_sensitive_share_tells_names_apart() {
    let world = World::with(|config, fs| {
        config.shares.extend([share("exact", fs, ShareOptions { case_sensitive: true, ..ShareOptions::default() })]);
    });
    world.put("README", b"text");
    let mut client = world.anna();
    client.tree_connect("exact");
    assert_eq!(client.read_file("readme").unwrap_err(), NtStatus::OBJECT_NAME_NOT_FOUND);
    client.write_file("readme", b"other");
    assert_eq!(world.content("README").unwrap(), b"text");
}

#[test]
fn names_no_file_can_have_are_refused() {
    let world = World::new();
    world.put("outside", b"");
    let mut client = world.anna();
    for name in [
        "..",
        "..\\x",
        "a\\..\\..\\x",
        ".",
        "a\\.",
        "\\a",
        "a\\\\b",
        "a/b",
        "a*",
        "a?",
        "a<",
        "a>",
        "a|",
        "a\"",
        "a\0b",
        "a\u{1}",
        "a:x:y:z",
        "a::",
        "a::$NONE",
        "con/../x",
    ] {
        let status = client.try_create(name, &OpenAs::default()).map(drop).unwrap_err();
        let expected = [
            NtStatus::OBJECT_NAME_INVALID,
            NtStatus::OBJECT_PATH_SYNTAX_BAD,
            NtStatus::INVALID_PARAMETER,
            NtStatus::OBJECT_PATH_NOT_FOUND,
        ];
        assert!(expected.contains(&status), "{name:?}: {status:?}");
    }
    let long = "x".repeat(256);
    assert_eq!(client.try_create(&long, &OpenAs::default()).unwrap_err(), NtStatus::NAME_TOO_LONG);
    let odd = client.call(OpenAs::default().message_raw(b"a\0b"));
    assert!(odd.status().is_error());
    let names = client.list("", "*", 4096).unwrap();
    assert_eq!(names, ["outside"]);
}

#[test]
fn vetoed_names_do_not_exist() {
    let world = World::with(|config, fs| {
        let veto = smb_server::NamePatterns::new([".git", "*.secret"]).unwrap();
        config.shares.extend([share("clean", fs, ShareOptions { veto, ..ShareOptions::default() })]);
    });
    world.mkdir(".git");
    world.put(".git/config", b"");
    world.put("a.secret", b"");
    world.put("b", b"");
    let mut client = world.anna();
    client.tree_connect("clean");
    assert_eq!(client.list("", "*", 4096).unwrap(), ["b"]);
    assert_eq!(client.read_file("A.SECRET").unwrap_err(), NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(client.read_file(".git\\config").unwrap_err(), NtStatus::OBJECT_PATH_NOT_FOUND);
    let status = client.try_create("new.secret", &OpenAs::default()).unwrap_err();
    assert_eq!(status, NtStatus::OBJECT_NAME_NOT_FOUND);
    let b = client.create("b", &OpenAs::default());
    assert!(client.rename(b, "b.secret", false).is_err());
}

#[test]
fn create_contexts_are_answered() {
    let world = World::new();
    let mut client = world.anna();
    let with = |tag: &[u8], data: &[u8]| OpenAs { contexts: vec![(tag.to_vec(), data.to_vec())], ..OpenAs::default() };
    let response = client.call(with(MAXIMAL_ACCESS_TAG, b"").message("a")).ok();
    let decoded = CreateResponse::decode(&response.bytes).unwrap();
    assert_eq!(decoded.contexts.get(MAXIMAL_ACCESS_TAG).unwrap(), [0, 0, 0, 0, 0xff, 1, 0x1f, 0]);
    let response = client.call(with(QUERY_ON_DISK_ID_TAG, b"").message("a")).ok();
    let decoded = CreateResponse::decode(&response.bytes).unwrap();
    let (_, internal) = client.query(decoded.handle, FileInfoClass::INTERNAL, 8);
    assert_eq!(decoded.contexts.get(QUERY_ON_DISK_ID_TAG).unwrap()[..8], internal);
    client.call(with(TIMEWARP_TAG, &[1; 8]).message("a")).expect(NtStatus::OBJECT_NAME_NOT_FOUND);
    client.call(with(ALLOCATION_TAG, &[0, 0, 1, 0, 0, 0, 0, 0]).message("b")).ok();
    client.call(with(ALLOCATION_TAG, &[1, 2]).message("c")).expect(NtStatus::INVALID_PARAMETER);
    client.call(with(b"Wxyz", b"unknown").message("d")).ok();
}

#[test]
fn a_close_tells_the_attributes_when_asked() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    client.write(handle, 0, b"12345");
    let message = Message::of(Command::Close, |out| CloseRequest { post_query: true, handle }.put(out));
    let response = client.call(message).ok();
    let decoded = CloseResponse::decode(&response.bytes).unwrap();
    assert!(decoded.has_attributes);
    assert_eq!((decoded.end_of_file, decoded.allocation_bytes), (5, 4096));
    assert_eq!(decoded.file_attributes, FileAttributes::ARCHIVE.bits());
    assert_eq!(client.try_close(handle).unwrap_err(), NtStatus::FILE_CLOSED);
}

#[test]
fn opens_of_a_session_are_counted() {
    let world = World::with(|config, _| config.max_opens = 3);
    let mut client = world.anna();
    let handles: Vec<_> = (0..3).map(|i| client.create(&format!("f{i}"), &OpenAs::default())).collect();
    assert_eq!(client.try_create("more", &OpenAs::default()).unwrap_err(), NtStatus::INSUFFICIENT_RESOURCES);
    assert!(!world.exists("more"));
    client.close(handles[1]);
    client.create("more", &OpenAs::default());
}

#[test]
fn rights_are_those_of_the_handle() {
    let world = World::new();
    world.put("a", b"content");
    let mut client = world.anna();
    let reader = client.create("a", &OpenAs::reader());
    assert_eq!(client.try_write(reader, 0, b"x").unwrap_err(), NtStatus::ACCESS_DENIED);
    assert_eq!(client.set_len(reader, 0).unwrap_err(), NtStatus::ACCESS_DENIED);
    assert_eq!(client.flush(reader).unwrap_err(), NtStatus::ACCESS_DENIED);
    let writer = client.create("a", &OpenAs::how(Disposition::Open).access(AccessMask::FILE_WRITE_DATA));
    assert_eq!(client.try_read(writer, 0, 1).unwrap_err(), NtStatus::ACCESS_DENIED);
    let appender = client.create("a", &OpenAs::how(Disposition::Open).access(AccessMask::FILE_APPEND_DATA));
    assert_eq!(client.try_write(appender, 0, b"x").unwrap_err(), NtStatus::ACCESS_DENIED);
    client.write(appender, 7, b"!");
    assert_eq!(world.content("a").unwrap(), b"content!");
}

#[test]
fn a_read_only_file_is_neither_written_nor_deleted_by_way_of_the_side_doors() {
    let world = World::new();
    let mut client = world.anna();
    let attributes = FileAttributes::READONLY;
    let made = client.create("a", &OpenAs { attributes, ..OpenAs::how(Disposition::Create) });
    client.close(made);
    let all = client.create("a", &OpenAs::how(Disposition::Open).access(AccessMask::MAXIMUM_ALLOWED));
    assert_eq!(client.try_write(all, 0, b"x"), Err(NtStatus::ACCESS_DENIED));
    let mut info = Vec::new();
    DispositionExInfo { flags: DispositionFlags::DELETE | DispositionFlags::ON_CLOSE }.encode(&mut info);
    assert_eq!(client.set(all, FileInfoClass::DISPOSITION_EX, &info), Err(NtStatus::CANNOT_DELETE));
    client.close(all);
    assert_eq!(world.content("a"), Some(Vec::new()));
}
