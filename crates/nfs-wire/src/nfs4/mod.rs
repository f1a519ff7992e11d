//! x
xdr_status! {
    /// The word
    pub struct NfsStat4("NFS4ERR") { OK = 0, "NFS4_OK", "It worked."; SERVERFAULT = 10006, "NFS4ERR_SERVERFAULT", "x"; }
}
