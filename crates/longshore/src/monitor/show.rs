//! `longshore status`: how the server is at this moment, for people or, with --json, for programs.

use std::fmt::Write as _;
use std::io::Write as _;

use super::ask::Asker;
use super::snapshot::{Connection, NfsClient, NfsMount, Session, Snapshot};
use crate::cli::StatusArgs;
use crate::failure::Failure;

/// Asks and shows.
pub fn status(arguments: &StatusArgs) -> Result<(), Failure> {
    let now = Asker::new(&arguments.server)?.snapshot()?;
    let text = if arguments.json {
        let shown = serde_json::to_string_pretty(&now);
        shown.map_err(|error| Failure::system(format!("cannot write it as JSON: {error}")))? + "\n"
    } else {
        for_people(&now)
    };
    // Nobody reading on is no failure.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Ok(())
}

fn for_people(now: &Snapshot) -> String {
    let mut out = String::new();
    server(now, &mut out);
    table(
        &mut out,
        "Shares",
        &["share", "access", "directory"],
        now.shares.iter().map(|share| vec![share.name.clone(), share.access.clone(), share.path.clone()]),
    );
    table(
        &mut out,
        "SMB sessions",
        &["user", "client", "dialect", "signing", "encryption", "opens", "channels", "shares"],
        now.sessions.iter().map(session),
    );
    table(
        &mut out,
        &format!("NFSv4 clients (lease {})", span(now.nfs_lease_seconds)),
        &["client", "version", "state", "last heard of", "opens", "lock owners", "delegations"],
        now.nfs_clients.iter().map(nfs_client),
    );
    let mount = |mount: &NfsMount| vec![mount.host.clone(), mount.path.clone()];
    table(&mut out, "NFSv3 mounts, as clients tell them", &["host", "path"], now.nfs_mounts.iter().map(mount));
    let nfs = now.connections.iter().filter(|connection| connection.protocol == "nfs");
    table(&mut out, "NFS connections", &["client", "for", "requests", "received", "sent"], nfs.map(connection));
    out
}

fn server(now: &Snapshot, out: &mut String) {
    let mut line = |what: &str, text: String| {
        let _ = writeln!(out, "{what:<12} {text}");
    };
    line("longshore", format!("{}, process {}, up {}", now.version, now.pid, span(now.uptime_seconds)));
    let listens = [("SMB", &now.listen.smb), ("NFS", &now.listen.nfs)];
    for (protocol, addresses) in listens {
        let at = if addresses.is_empty() { "off".into() } else { addresses.join(", ") };
        line(protocol, at);
    }
    if let Some(metrics) = &now.listen.metrics {
        line("metrics", metrics.clone());
    }
    let of = |protocol: &str| now.connections.iter().filter(|c| c.protocol == protocol).count();
    line("connections", format!("{} SMB, {} NFS", of("smb"), of("nfs")));
    let claims = &now.claims;
    line(
        "held",
        format!(
            "{} opens of {} files, {} byte-range locks, {} leases and delegations (of these {} NFS delegations)",
            claims.opens, claims.files, claims.locks, claims.caching, claims.delegations
        ),
    );
    let memory = &now.memory;
    line(
        "memory",
        format!(
            "{} resident; buffers {} in use, {} idle",
            bytes(memory.resident_bytes as f64),
            bytes(memory.buffers_used_bytes as f64),
            bytes(memory.buffers_idle_bytes as f64)
        ),
    );
}

fn session(session: &Session) -> Vec<String> {
    let signing = match (session.signing.as_str(), session.signing_required) {
        ("none", _) => "none".to_owned(),
        (algorithm, true) => format!("{algorithm}, required"),
        (algorithm, false) => algorithm.to_owned(),
    };
    let encryption = if session.encrypted { session.cipher.clone() } else { "no".into() };
    let guest = if session.guest { " (guest)" } else { "" };
    vec![
        format!("{}{guest}", session.user),
        session.channels.first().cloned().unwrap_or_else(|| "gone".into()),
        session.dialect.clone(),
        signing,
        encryption,
        session.opens.to_string(),
        session.channels.len().to_string(),
        session.shares.join(" "),
    ]
}

fn nfs_client(client: &NfsClient) -> Vec<String> {
    vec![
        client.owner.clone(),
        client.version.clone(),
        client.state.clone(),
        format!("{} ago", span(client.lease_age_seconds)),
        client.opens.to_string(),
        client.lock_owners.to_string(),
        client.delegations.to_string(),
    ]
}

fn connection(connection: &Connection) -> Vec<String> {
    vec![
        connection.peer.clone(),
        span(connection.age_seconds),
        connection.requests.to_string(),
        bytes(connection.received_bytes as f64),
        bytes(connection.sent_bytes as f64),
    ]
}

/// A table with its heading; nothing where it has no rows.
fn table(out: &mut String, what: &str, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let rows: Vec<Vec<String>> = rows.map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    if rows.is_empty() {
        return;
    }
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    let all = || std::iter::once(&heads).chain(&rows);
    let width = |column: usize| all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..heads.len()).map(|column| width(column).unwrap_or_default()).collect();
    let _ = writeln!(out, "\n{what}");
    for row in all() {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(out, "  {}", cells.join("  ").trim_end());
    }
}

/// What a client calls itself may be anything: nothing of it may reach the terminal as an order.
pub fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

/// `1.5 MiB`.
pub fn bytes(count: f64) -> String {
    let mut left = count;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if left < 1000.0 {
            return if unit == "B" { format!("{left:.0} B") } else { format!("{left:.1} {unit}") };
        }
        left /= 1024.0;
    }
    format!("{left:.1} TiB")
}

/// `2d 3h`, `4m 5s`, `0.3s`: two units at most.
pub fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0 => format!("{seconds:.1}s"),
        1..60 => format!("{whole}s"),
        60..3600 => format!("{}m {}s", whole / 60, whole % 60),
        3600..86_400 => format!("{}h {}m", whole / 3600, whole % 3600 / 60),
        _ => format!("{}d {}h", whole / 86_400, whole % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_spans_are_short() {
        assert_eq!(
            [0.0, 999.0, 1024.0, 1_500_000.0, 3e12].map(bytes),
            ["0 B", "999 B", "1.0 KiB", "1.4 MiB", "2.7 TiB"]
        );
        assert_eq!([0.25, 59.9, 61.0, 7300.0, 180_000.0].map(span), ["0.2s", "59s", "1m 1s", "2h 1m", "2d 2h"]);
    }

    #[test]
    fn what_clients_say_gives_the_terminal_no_orders() {
        let client = NfsClient { owner: "x\x1b[2J\n\x07y\u{9b}".into(), ..NfsClient::default() };
        let session = Session { user: "\x1b]0;title\x07".into(), ..Session::default() };
        let mount = NfsMount { path: "/x\r\x1bc".into(), ..NfsMount::default() };
        let (nfs_clients, nfs_mounts) = (vec![client], vec![mount]);
        let now = Snapshot { nfs_clients, nfs_mounts, sessions: vec![session], ..Snapshot::default() };
        assert!(for_people(&now).chars().all(|letter| letter == '\n' || !letter.is_control()));
    }
}
