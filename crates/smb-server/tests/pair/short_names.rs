//! Short names, made up for programs that know no others: shown, found, and no way around a share's rules.

use smb_server::{NamePatterns, ShareOptions};
use smb_wire::NtStatus;
use smb_wire::fscc::{DirInfoClass, FileInfoClass, dir_entries};
use smb_wire::name::from_utf16le;
use smb_wire::smb2::{Disposition, QueryDirectoryFlags};
use vfs::shortname::made_for;

use crate::util::client::Client;
use crate::util::ops::{READ, list_message};
use crate::util::world::share;
use crate::util::{OpenAs, World};

const LONG: &str = "Quarterly report.2026.docx";

fn short(name: &str) -> String {
    String::from_utf8(made_for(name.as_bytes()).unwrap()).unwrap()
}

/// What FileAlternateNameInformation says of `name`.
fn alternate(client: &mut Client, name: &str) -> Result<String, NtStatus> {
    let handle = client.create(name, &OpenAs::reader());
    let (status, info) = client.query(handle, FileInfoClass::ALTERNATE_NAME, 100);
    client.close(handle);
    if status.is_error() { Err(status) } else { Ok(from_utf16le(&info[4..])) }
}

/// Names and short names of the root, as `pattern` finds them.
fn listed(client: &mut Client, pattern: &str) -> Vec<(String, String)> {
    let root = client.create("", &OpenAs::directory(Disposition::Open).access(READ));
    let class = DirInfoClass::BothDirectory;
    let response = client.call(list_message(root, class, QueryDirectoryFlags::empty(), pattern, 4096));
    client.close(root);
    if response.status().is_error() {
        return Vec::new();
    }
    let text =
        |entry: &smb_wire::fscc::DirEntryInfo<'_>| (from_utf16le(entry.name_utf16), from_utf16le(entry.short_name));
    let entries = dir_entries(class, response.output()).map(|entry| text(&entry.unwrap()));
    entries.filter(|(name, _)| name != "." && name != "..").collect()
}

#[test]
fn a_short_name_is_shown_and_leads_to_the_file() {
    let world = World::new();
    world.put(LONG, b"text");
    world.put("short.txt", b"");
    let mut client = world.anna();
    let name = short(LONG);
    assert_eq!(alternate(&mut client, LONG), Ok(name.clone()));
    assert_eq!(alternate(&mut client, "short.txt"), Ok("SHORT.TXT".into()));
    let mut all = listed(&mut client, "*");
    all.sort();
    assert_eq!(all, [(LONG.into(), name.clone()), ("short.txt".into(), String::new())]);
    assert_eq!(listed(&mut client, &name.to_lowercase()), [(LONG.into(), name.clone())], "how the long one is learnt");
    assert!(listed(&mut client, "QU~*").is_empty(), "wildcards are for long names");
    assert_eq!(client.read_file(&name).unwrap(), b"text");
    assert_eq!(client.read_file(&name.to_lowercase()).unwrap(), b"text");
    let taken = client.try_create(&name, &OpenAs::how(Disposition::Create)).unwrap_err();
    assert_eq!(taken, NtStatus::OBJECT_NAME_COLLISION);
    let handle = client.create(&name, &OpenAs::default());
    let (_, path) = client.query(handle, FileInfoClass::NORMALIZED_NAME, 100);
    assert_eq!(from_utf16le(&path[4..]), LONG);
    client.dispose(handle, true).unwrap();
    client.close(handle);
    assert!(!world.exists(LONG));
    client.write_file(&name, b"its own");
    assert!(world.exists(&name), "of nothing it is a name like others");
}

#[test]
fn directories_and_renames_go_by_short_names_too() {
    let world = World::new();
    world.mkdir("A long directory");
    world.put("a", b"new");
    world.put("A long directory/A long file", b"old");
    let (dir, file) = (short("A long directory"), short("A long file"));
    let mut client = world.anna();
    let handle = client.create("a", &OpenAs::default());
    let target = format!("{dir}\\{file}");
    assert_eq!(client.rename(handle, &target, false), Err(NtStatus::OBJECT_NAME_COLLISION));
    client.rename(handle, &format!("{dir}\\b"), false).unwrap();
    assert!(world.exists("A long directory/b"));
    client.write_file(&format!("{dir}\\new"), b"");
    assert!(world.exists("A long directory/new"));
}

#[test]
fn a_share_may_have_none() {
    let options = [
        ShareOptions { short_names: false, ..ShareOptions::default() },
        ShareOptions { case_sensitive: true, ..ShareOptions::default() },
    ];
    for options in options {
        let world = World::with(|config, fs| config.shares.extend([share("plain", fs, options)]));
        world.put(LONG, b"text");
        world.put("short.txt", b"");
        let mut client = world.anna();
        client.tree_connect("plain");
        assert_eq!(alternate(&mut client, LONG), Err(NtStatus::OBJECT_NAME_NOT_FOUND));
        assert_eq!(alternate(&mut client, "short.txt"), Ok("SHORT.TXT".into()));
        assert!(listed(&mut client, "*").iter().all(|(_, short)| short.is_empty()));
        assert!(listed(&mut client, &short(LONG)).is_empty());
        assert_eq!(client.read_file(&short(LONG)).unwrap_err(), NtStatus::OBJECT_NAME_NOT_FOUND);
        client.write_file(&short(LONG), b"another");
        assert_eq!(world.content(LONG).unwrap(), b"text");
    }
}

#[test]
fn a_short_name_is_no_way_to_what_is_hidden() {
    let world = World::with(|config, fs| {
        let veto = NamePatterns::new(["*.secret", "private things"]).unwrap();
        config.shares.extend([share("clean", fs, ShareOptions { veto, ..ShareOptions::default() })]);
    });
    world.mkdir("private things");
    world.put("private things/a", b"");
    world.put("plans.secret", b"");
    let mut client = world.anna();
    client.tree_connect("clean");
    let (file, dir) = (short("plans.secret"), short("private things"));
    assert_eq!(client.read_file(&file).unwrap_err(), NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(client.read_file(&format!("{dir}\\a")).unwrap_err(), NtStatus::OBJECT_PATH_NOT_FOUND);
    assert!(listed(&mut client, &file).is_empty());
    client.write_file("mine", b"");
    let mine = client.create("mine", &OpenAs::default());
    client.rename(mine, &file, true).unwrap();
    assert_eq!(world.content("plans.secret").unwrap(), b"", "what is hidden is not replaced");
    assert!(world.exists(&file));
}
