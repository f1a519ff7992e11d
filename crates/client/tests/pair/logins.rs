//! Who gets in, and what is agreed on with whom.

use client::{Cipher, Credentials, Dialect, ErrorKind, Failure, NtStatus, Options, Protection};
use smb_server::Encryption;

use crate::story;
use crate::util::World;
use crate::util::world::{PASSWORD, USER};
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
            assert_eq!(client.negotiated().dialect, newest);
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
        assert!(client.negotiated().signing_required);
        client.mkdir("signed").await.unwrap();
        let world = World::with(|config, _| config.encryption = Encryption::Required);
        let client = join(&world, &Options { ciphers: vec![Cipher::Aes256Gcm], ..Options::default() }).await;
        assert_eq!(client.negotiated().cipher, Some(Cipher::Aes256Gcm));
        client.mkdir("sealed").await.unwrap();
    });
}
