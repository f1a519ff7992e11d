//! The server's Kerberos keys: the file that the configuration names, read and looked at, and the shares that cannot do
//! without it. `plan` calls it at start-up, on reload and for `check`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use auth::krb5::Keytab;
use nfs_server::Sec;

use crate::plan::{Blame, PlannedShare};

/// The service whose keys count.
const SERVICE: &str = "nfs";
/// Bytes of the longest file that is read.
const MOST_BYTES: u64 = 4 << 20;

/// The keys, where the configuration names a file; what is wrong with it, or with shares that want it, is a problem.
pub fn find(blame: &Blame<'_>, shares: &[PlannedShare], problems: &mut Vec<String>) -> Option<Arc<Keytab>> {
    let Some(path) = &blame.config.server.keytab else {
        for share in shares.iter().filter(|share| share.settings.nfs_sec.iter().any(|sec| *sec != Sec::Sys)) {
            let section = format!("share.{}", share.settings.name);
            problems.push(blame.key(&section, "nfs_sec", "Kerberos needs the server's keys: set server.keytab"));
        }
        return None;
    };
    match read(path) {
        Ok(keytab) => Some(Arc::new(keytab)),
        Err(what) => {
            problems.push(blame.key("server", "keytab", &what));
            None
        }
    }
}

fn read(path: &Path) -> Result<Keytab, String> {
    let shown = path.display();
    let bytes = contents(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            format!("{shown} does not exist; make it with `ktadd -k {shown} nfs/HOST` in kadmin")
        }
        io::ErrorKind::PermissionDenied => format!("{shown} may not be read by the server's user"),
        _ => format!("{shown}: {error}"),
    })?;
    let keytab = Keytab::parse(&bytes).map_err(|error| format!("{shown}: {error}"))?;
    if keytab.principals(SERVICE).is_empty() {
        return Err(format!("{shown} has no AES key of a principal nfs/HOST; `klist -ke {shown}` lists what it has"));
    }
    Ok(keytab)
}

fn contents(path: &Path) -> io::Result<zeroize::Zeroizing<Vec<u8>>> {
    use io::Read;
    let mut bytes = zeroize::Zeroizing::new(Vec::new());
    std::fs::File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
