//! The user database: its format, and what a file system can do to it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

const TEXT: &str = "# users of this server\n\nanna:1001:a4f49c406510bdcab6824ee7c30fd852\n\
                    Bert Öl::31d6cfe0d16ae931b73c59d7e0c089c0\n";

/// A directory of this test's own, gone at its end.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("longshore-auth-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, text: &str, mode: u32) -> PathBuf {
        let path = self.0.join("users");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_text_round_trips_with_its_notes() {
    let db = UserDb::parse(TEXT).unwrap();
    assert_eq!(*db.format(), TEXT);
    let users: Vec<_> = db.users().map(|user| (user.name.as_str(), user.uid)).collect();
    assert_eq!(users, [("anna", Some(1001)), ("Bert Öl", None)]);
}

#[test]
fn names_are_found_whatever_their_case() {
    let db = UserDb::parse(TEXT).unwrap();
    for name in ["anna", "ANNA", "bert öl", "BERT ÖL", "Anna@example.org"] {
        assert!(db.nt_hash("ANYWHERE", name).is_some(), "{name}");
    }
    for name in ["", "bert", "anna ", "@example.org"] {
        assert!(db.nt_hash("", name).is_none(), "{name}");
    }
}

#[test]
fn users_come_and_go() {
    let mut db = UserDb::parse(TEXT).unwrap();
    db.add("carl", None, NtHash::of_password("c")).unwrap();
    assert!(matches!(db.add("CARL", None, NtHash::of_password("x")), Err(UserDbError::Exists(_))));
    db.remove("Anna").unwrap();
    assert!(matches!(db.remove("anna"), Err(UserDbError::Unknown(_))));
    db.set_nt_hash("CARL", NtHash::of_password("d")).unwrap();
    assert!(matches!(db.set_nt_hash("anna", NtHash::of_password("d")), Err(UserDbError::Unknown(_))));
    let expected = format!(
        "# users of this server\n\nBert Öl::31d6cfe0d16ae931b73c59d7e0c089c0\ncarl::{}\n",
        NtHash::of_password("d").to_hex()
    );
    assert_eq!(*db.format(), expected);
    assert_eq!(db.get("bert öl").unwrap().name, "Bert Öl", "positions moved with the removal");
}

#[test]
fn names_that_would_break_the_format_are_refused() {
    let mut db = UserDb::default();
    for bad in ["", "a:b", "a\nb", "#a", " a", "a ", "a/b", "a\\b", "a\0", &"x".repeat(257)] {
        assert!(matches!(db.add(bad, None, NtHash::of_password("x")), Err(UserDbError::BadName)), "{bad:?}");
    }
    assert_eq!(db.users().count(), 0);
}

#[test]
fn a_wrong_line_is_named() {
    for (text, line, word) in [
        ("anna", 1, "name:uid:hash"),
        ("# x\nanna:1:2:3", 2, "name:uid:hash"),
        ("anna:-1:a4f49c406510bdcab6824ee7c30fd852", 1, "uid"),
        ("anna::a4f4", 1, "hexadecimal"),
        (":1:a4f49c406510bdcab6824ee7c30fd852", 1, "name"),
        ("a::31d6cfe0d16ae931b73c59d7e0c089c0\n\nA::31d6cfe0d16ae931b73c59d7e0c089c0", 3, "already"),
    ] {
        let error = UserDb::parse(text).unwrap_err();
        assert!(matches!(error, UserDbError::Line { line: found, .. } if found == line), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_cut_text_never_panics() {
    for len in (0..TEXT.len()).filter(|len| TEXT.is_char_boundary(*len)) {
        let _ = UserDb::parse(&TEXT[..len]);
    }
}

#[test]
fn errors_and_debug_show_no_hash() {
    let db = UserDb::parse(TEXT).unwrap();
    assert!(!format!("{db:?}").contains("a4f49c40"));
    let error = UserDb::parse("anna:1:a4f49c406510bdcab6824ee7c30fd85").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("a4f49c40"));
}

#[test]
fn a_saved_file_is_its_owners_alone_and_loads() {
    let dir = Dir::new();
    let path = dir.0.join("users");
    let db = UserDb::parse(TEXT).unwrap();
    db.save(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(*UserDb::load(&path).unwrap().format(), TEXT);
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn saving_over_an_open_file_closes_it_to_others() {
    let dir = Dir::new();
    let path = dir.file("old", 0o644);
    UserDb::parse(TEXT).unwrap().save(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn a_file_others_can_read_or_write_is_refused() {
    let dir = Dir::new();
    for mode in [0o640, 0o604, 0o620, 0o602, 0o644, 0o610] {
        let error = UserDb::load(&dir.file(TEXT, mode)).unwrap_err();
        assert!(matches!(error, UserDbError::TooOpen { mode: found, .. } if found == mode), "{error}");
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
    for mode in [0o600, 0o400] {
        UserDb::load(&dir.file(TEXT, mode)).unwrap();
    }
}

#[test]
fn a_missing_file_a_directory_and_binary_junk_are_told_apart() {
    let dir = Dir::new();
    assert!(matches!(
        UserDb::load(&dir.0.join("none")),
        Err(UserDbError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound
    ));
    assert!(matches!(UserDb::load(&dir.0), Err(UserDbError::NotADatabase { .. })));
    let path = dir.file("", 0o600);
    fs::write(&path, [0xff, 0xfe, 0x00]).unwrap();
    assert!(matches!(UserDb::load(&path), Err(UserDbError::Io { .. })));
}

#[test]
fn a_save_that_fails_leaves_the_old_file_and_no_other() {
    let dir = Dir::new();
    let path = dir.0.join("users");
    // A directory that is not empty cannot be replaced by a rename, not even by root.
    fs::create_dir_all(path.join("inside")).unwrap();
    assert!(matches!(UserDb::parse(TEXT).unwrap().save(&path), Err(UserDbError::Io { .. })));
    assert!(path.join("inside").is_dir());
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 1);
    assert!(UserDb::default().save(&dir.0.join("no/such/directory")).is_err());
}

#[test]
fn a_symbolic_link_survives_a_save() {
    let dir = Dir::new();
    let path = dir.file("", 0o600);
    let link = dir.0.join("link");
    symlink(&path, &link).unwrap();
    UserDb::parse(TEXT).unwrap().save(&link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(*UserDb::load(&path).unwrap().format(), TEXT);
}
