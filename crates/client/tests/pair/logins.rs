//! Who gets in, and what is agreed on with whom.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use client::{Cipher, Credentials, Dialect, ErrorKind, Failure, NtStatus, Options, Protection};
use smb_server::{Encryption, ShareOptions};

use crate::story;
use crate::util::World;
use crate::util::world::{PASSWORD, SHARE, USER, share};
use crate::wire::{honest, join, try_join};

fn anna() -> Credentials {
    Credentials::password(USER, PASSWORD)
}

#[test]
fn a_wrong_password_or_user_is_said() {
    story(async {
        let world = World::new();
        for credentials in [Credentials::password(USER, "wrong"), Credentials::password("nobody", PASSWORD)] {
            let error = try_join(&world, &Options::default(), credentials, honest()).await.unwrap_err();
            assert_eq!(error.status(), Some(NtStatus::LOGON_FAILURE));
            let text = error.to_string();
            assert!(text.starts_with("connect to //longshore:445/data: STATUS_LOGON_FAILURE"), "{text}");
            assert!(text.contains("password"), "{text}");
        }
    });
}

#[test]
fn a_share_that_is_not_there_is_said() {
    story(async {
        let world = World::with(|config, _| config.shares.clear());
        let error = try_join(&world, &Options::default(), anna(), honest()).await.unwrap_err();
        assert_eq!(error.status(), Some(NtStatus::BAD_NETWORK_NAME), "{error}");
    });
}

#[test]
fn the_best_dialect_in_common_is_spoken() {
    for newest in Dialect::ALL {
        story(async {
            let world = World::with(|config, _| config.max_dialect = newest);
            let client = join(&world, &Options::default()).await;
            assert_eq!(client.negotiated().unwrap().dialect, newest);
        });
    }
}

#[test]
fn what_cannot_be_agreed_on_is_said() {
    story(async {
        let world = World::with(|config, _| config.max_dialect = Dialect::V2_1);
        let options = Options { protection: Protection::Sealed, ..Options::default() };
        let error = try_join(&world, &options, anna(), honest()).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Connection(Failure::NoCommonGround(_))), "{error}");
        let options = Options { min_dialect: Dialect::V3_0, ..Options::default() };
        let error = try_join(&world, &options, anna(), honest()).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Connection(Failure::Negotiate(_))), "{error}");
        let options = Options { min_dialect: Dialect::V3_0, max_dialect: Dialect::V2_1, ..Options::default() };
        let error = try_join(&world, &options, anna(), honest()).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Input(_)), "{error}");
    });
}

#[test]
fn what_the_server_insists_on_is_done() {
    story(async {
        let world = World::with(|config, _| config.signing_required = true);
        let client = join(&world, &Options::default()).await;
        assert!(client.negotiated().unwrap().signing_required);
        client.mkdir("signed").await.unwrap();
        let world = World::with(|config, _| config.encryption = Encryption::Required);
        let client = join(&world, &Options { ciphers: vec![Cipher::Aes256Gcm], ..Options::default() }).await;
        assert_eq!(client.negotiated().unwrap().cipher, Some(Cipher::Aes256Gcm));
        client.mkdir("sealed").await.unwrap();
    });
}

#[test]
fn a_share_that_wants_its_messages_sealed_gets_them_sealed() {
    story(async {
        let world = World::with(|config, fs| {
            let options = ShareOptions { encryption_required: true, ..ShareOptions::default() };
            config.shares = HashMap::from([share(SHARE, fs, options)]);
        });
        let open = Rc::new(Cell::new(0));
        let seen = Rc::clone(&open);
        let meddle = Box::new(move |frame: Vec<u8>| {
            seen.set(seen.get() + usize::from(frame[4] == 0xfe));
            Some(frame)
        });
        let client = try_join(&world, &Options::default(), anna(), meddle).await.unwrap();
        let before = open.get();
        client.write_at("file", 0, b"secret").await.unwrap();
        let mut buf = [0; 6];
        client.read_at("file", 0, &mut buf).await.unwrap();
        assert_eq!(&buf, b"secret");
        assert_eq!(client.list("").await.unwrap().len(), 1);
        assert_eq!(open.get(), before, "nothing travels open");
    });
}
