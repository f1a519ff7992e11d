//! A further channel of a session: what a SESSION_SETUP must fulfil to bind its connection to one, and the binding once its
//! user has logged in (MS-SMB2 3.3.5.5, 3.3.5.5.3). SESSION_SETUP calls it for every message of such a login.

use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::crypto::{SigningAlgorithm, SigningKey};

use crate::dispatch::Request;
use crate::handlers::negotiate::Negotiated;
use crate::session::{Channel, Session, Terms, User};
use crate::signing::Signature;

/// The session the request may bind its connection to. Only who has the session's key is told why not.
pub(crate) fn check(request: &Request<'_>, negotiated: &Negotiated) -> Result<Arc<Session>, NtStatus> {
    let Some(session) = request.conn.server.session(request.header.session_id) else {
        let knows_channels = negotiated.dialect.is_3();
        return Err(if knows_channels { NtStatus::USER_SESSION_DELETED } else { NtStatus::REQUEST_NOT_ACCEPTED });
    };
    let user = session.user();
    if user.guest || user.anonymous {
        return Err(NtStatus::NOT_SUPPORTED);
    }
    if request.signature != Signature::Good {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    check_terms(&session.terms, &negotiated.terms())?;
    if request.channel.is_some() {
        return Err(NtStatus::REQUEST_NOT_ACCEPTED);
    }
    Ok(session)
}

/// Whether a connection that negotiated `here` can be a channel of a session that was made with `session`. The two
/// statuses about AES-GMAC are those of Windows Server 2022; a different ClientGuid may be refused and, as there, is not.
fn check_terms(session: &Terms, here: &Terms) -> Result<(), NtStatus> {
    let is_gmac = |terms: &Terms| terms.algorithm == SigningAlgorithm::AesGmac;
    match (is_gmac(session), is_gmac(here)) {
        (true, false) => return Err(NtStatus::REQUEST_OUT_OF_SEQUENCE),
        (false, true) => return Err(NtStatus::NOT_SUPPORTED),
        _ => {}
    }
    if !here.dialect.is_3() {
        return Err(NtStatus::REQUEST_NOT_ACCEPTED);
    }
    if here.dialect != session.dialect || here.cipher != session.cipher {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok(())
}

/// Makes the connection a channel of `session`, for which `user` has logged in, with a signing key of its own.
pub(crate) fn join(
    request: &mut Request<'_>,
    negotiated: &Negotiated,
    session: &Arc<Session>,
    user: &User,
    key: SigningKey,
) -> Result<(), NtStatus> {
    let owner = session.user();
    if user.guest || user.anonymous || !owner.name.eq_ignore_ascii_case(&user.name) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let conn = request.conn;
    session.join(&conn.mailbox)?;
    let channel = Channel { session: Arc::clone(session), signing: Some(Arc::new(key)) };
    conn.state.borrow_mut().channels.insert(session.id, channel.clone());
    tracing::info!(
        peer = %conn.peer,
        at = %conn.local,
        user = %owner.name,
        dialect = %negotiated.dialect,
        channels = session.channels().len(),
        "channel"
    );
    request.channel = Some(channel);
    Ok(())
}

#[cfg(test)]
mod tests {
    use smb_wire::crypto::Cipher;
    use smb_wire::smb2::Dialect;

    use super::*;

    const TERMS: Terms =
        Terms { dialect: Dialect::V3_1_1, cipher: Some(Cipher::Aes128Gcm), algorithm: SigningAlgorithm::AesCmac };

    #[test]
    fn a_channel_has_what_the_session_was_made_with() {
        let hmac = Terms { algorithm: SigningAlgorithm::HmacSha256, ..TERMS };
        let gmac = Terms { algorithm: SigningAlgorithm::AesGmac, ..TERMS };
        let ccm = Terms { cipher: Some(Cipher::Aes128Ccm), ..TERMS };
        let v2 = Terms { dialect: Dialect::V2_1, cipher: None, algorithm: SigningAlgorithm::HmacSha256 };
        let v302 = Terms { dialect: Dialect::V3_0_2, ..TERMS };
        for (session, here, expected) in [
            (TERMS, TERMS, Ok(())),
            (gmac, gmac, Ok(())),
            (TERMS, hmac, Ok(())),
            (hmac, TERMS, Ok(())),
            (gmac, TERMS, Err(NtStatus::REQUEST_OUT_OF_SEQUENCE)),
            (gmac, v2, Err(NtStatus::REQUEST_OUT_OF_SEQUENCE)),
            (hmac, gmac, Err(NtStatus::NOT_SUPPORTED)),
            (v302, gmac, Err(NtStatus::NOT_SUPPORTED)),
            (TERMS, v2, Err(NtStatus::REQUEST_NOT_ACCEPTED)),
            (v2, v2, Err(NtStatus::REQUEST_NOT_ACCEPTED)),
            (v2, TERMS, Err(NtStatus::INVALID_PARAMETER)),
            (v302, TERMS, Err(NtStatus::INVALID_PARAMETER)),
            (TERMS, ccm, Err(NtStatus::INVALID_PARAMETER)),
        ] {
            assert_eq!(check_terms(&session, &here), expected, "{session:?} {here:?}");
        }
    }
}
