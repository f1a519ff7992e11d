//! `longshore top`: what the server is doing, anew each second: rates, paths, how long operations take, who is busiest. On
//! a terminal it draws over itself; elsewhere it prints a frame at a time.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use vfs::metrics::Distribution;

use super::ask::Asker;
use super::show::{bytes, printable, span};
use super::snapshot::{Connection, Snapshot};
use super::terminal::Terminal;
use crate::cli::TopArgs;
use crate::failure::Failure;

/// Clients that are shown.
const MOST_CLIENTS: usize = 10;
/// Operations that are shown.
const MOST_OPERATIONS: usize = 20;

/// Asks and shows until told to stop.
pub fn top(arguments: &TopArgs) -> Result<(), Failure> {
    let asker = Asker::new(&arguments.server)?;
    let every = Duration::from_secs_f64(arguments.interval);
    // Asked before the terminal is touched: what is wrong is said on the screen that stays.
    let first = asker.snapshot()?;
    if arguments.once {
        std::thread::sleep(every);
        let frame = frame(&first, &asker.snapshot()?);
        let _ = io::stdout().lock().write_all(frame.as_bytes());
        return Ok(());
    }
    match Terminal::enter().map_err(|error| Failure::system(format!("cannot draw on the terminal: {error}")))? {
        Some(terminal) => draw(&asker, first, every, &terminal),
        None => print(&asker, first, every),
    }
}

fn draw(asker: &Asker, mut before: Snapshot, every: Duration, terminal: &Terminal) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::system(format!("cannot draw on the terminal: {error}"));
    // There is something to see at once.
    terminal.show(&frame(&before, &before)).map_err(failed)?;
    while !terminal.wants_to_quit(every).map_err(failed)? {
        let now = asker.snapshot()?;
        terminal.show(&frame(&before, &now)).map_err(failed)?;
        before = now;
    }
    Ok(())
}

fn print(asker: &Asker, mut before: Snapshot, every: Duration) -> Result<(), Failure> {
    loop {
        std::thread::sleep(every);
        let now = asker.snapshot()?;
        let frame = frame(&before, &now) + "\n";
        let mut out = io::stdout().lock();
        if out.write_all(frame.as_bytes()).and_then(|()| out.flush()).is_err() {
            // Nobody reads on.
            return Ok(());
        }
        before = now;
    }
}

/// What happened between two moments of a server.
struct Between<'a> {
    before: &'a Snapshot,
    now: &'a Snapshot,
    seconds: f64,
}

impl Between<'_> {
    /// How often in a second.
    fn rate(&self, counter: &str) -> f64 {
        self.per_second(self.now.counter(counter).saturating_sub(self.before.counter(counter)))
    }

    fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }
}

fn frame(before: &Snapshot, now: &Snapshot) -> String {
    // Another process, and its counters began anew.
    let nothing = Snapshot { uptime_seconds: 0.0, ..Snapshot::default() };
    let before = if before.pid == now.pid { before } else { &nothing };
    let between = Between { before, now, seconds: now.uptime_seconds - before.uptime_seconds };
    let mut out = String::new();
    heading(&between, &mut out);
    paths(&between, &mut out);
    operations(&between, &mut out);
    clients(&between, &mut out);
    out
}

fn heading(between: &Between<'_>, out: &mut String) {
    let now = between.now;
    let of = |protocol: &str| now.connections.iter().filter(|c| c.protocol == protocol).count();
    let _ = writeln!(
        out,
        "longshore {}  up {}  {} SMB and {} NFS connections  {} sessions  {} NFSv4 clients  {} opens  {} locks",
        now.version,
        span(now.uptime_seconds),
        of("smb"),
        of("nfs"),
        now.sessions.len(),
        now.nfs_clients.len(),
        now.claims.opens,
        now.claims.locks,
    );
    let _ = writeln!(
        out,
        "memory {}  buffers {} in use, {} idle  worker jobs {}",
        bytes(now.memory.resident_bytes as f64),
        bytes(now.memory.buffers_used_bytes as f64),
        bytes(now.memory.buffers_idle_bytes as f64),
        now.worker_jobs,
    );
    let _ = writeln!(
        out,
        "{:.0} requests/s  in {}  out {}  {} requests a receive, {} replies a send",
        between.rate("frames"),
        speed(between.rate("recv_bytes")),
        speed(between.rate("sent_bytes")),
        ratio(between.rate("frames"), between.rate("recv_calls")),
        ratio(between.rate("replies"), between.rate("send_calls")),
    );
    let breaks = between.rate("breaks") + between.rate("nfs_recalls");
    let parked = between.rate("parked") + between.rate("nfs_parked");
    let _ = writeln!(
        out,
        "{parked:.0} parked/s  {breaks:.0} breaks/s  {:.0} failed logins/s",
        between.rate("failed_logins")
    );
}

fn paths(between: &Between<'_>, out: &mut String) {
    let both = |name: &str| between.rate(name) + between.rate(&format!("nfs_{name}"));
    let read = [
        ("pages", both("read_pages")),
        ("copied", both("read_copy")),
        ("signed", both("read_signed")),
        ("encrypted", both("read_sealed")),
    ];
    let _ = writeln!(out, "READ   {:>12}  {}", speed(both("read_bytes")), shares(&read));
    let write = [("in place", both("write_inline")), ("on workers", both("write_worker"))];
    let _ = writeln!(out, "WRITE  {:>12}  {}", speed(both("write_bytes")), shares(&write));
}

/// How large a part each has of all.
fn shares(parts: &[(&str, f64)]) -> String {
    let all: f64 = parts.iter().map(|(_, rate)| rate).sum();
    let part = |(name, rate): &(&str, f64)| format!("{name} {:.0} %", if all > 0.0 { 100.0 * rate / all } else { 0.0 });
    parts.iter().map(part).collect::<Vec<_>>().join("  ")
}

fn operations(between: &Between<'_>, out: &mut String) {
    let key = |operation: &super::snapshot::Operation| (operation.protocol.clone(), operation.name.clone());
    let earlier: HashMap<_, _> = between.before.operations.iter().map(|one| (key(one), one)).collect();
    let mut rows: Vec<(u64, u64, String, Distribution)> = Vec::new();
    for one in &between.now.operations {
        let known = earlier.get(&key(one));
        let count = one.count.saturating_sub(known.map_or(0, |known| known.count));
        let errors = one.errors.saturating_sub(known.map_or(0, |known| known.errors));
        let took = one.latency_ns.distribution();
        let took = known.map_or_else(|| took.clone(), |known| took.since(&known.latency_ns.distribution()));
        if count > 0 {
            rows.push((count, errors, format!("{} {}", one.protocol, one.name), took));
        }
    }
    rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.2.cmp(&b.2)));
    let _ = writeln!(out, "\n{:<26} {:>10} {:>10} {:>10} {:>10}", "operation", "a second", "errors/s", "mean", "p99");
    for (count, errors, name, took) in rows.iter().take(MOST_OPERATIONS) {
        let _ = writeln!(
            out,
            "{:<26} {:>10.0} {:>10.0} {:>10} {:>10}",
            printable(name),
            between.per_second(*count),
            between.per_second(*errors),
            time(took.mean()),
            time(took.quantile(0.99).map(|ns| ns as f64)),
        );
    }
}

fn clients(between: &Between<'_>, out: &mut String) {
    let key = |connection: &Connection| (connection.protocol.clone(), connection.peer.clone());
    let earlier: HashMap<_, _> = between.before.connections.iter().map(|one| (key(one), one)).collect();
    let users: HashMap<&str, &str> = between
        .now
        .sessions
        .iter()
        .flat_map(|session| session.channels.iter().map(|peer| (peer.as_str(), session.user.as_str())))
        .collect();
    let mut rows: Vec<_> = between
        .now
        .connections
        .iter()
        .map(|now| {
            // A connection of the same port that is younger than what was seen is another one.
            let before = earlier.get(&key(now)).filter(|before| before.age_seconds <= now.age_seconds);
            let since = |get: fn(&Connection) -> u64| get(now).saturating_sub(before.map_or(0, |before| get(before)));
            (since(|c| c.requests), since(|c| c.received_bytes), since(|c| c.sent_bytes), now)
        })
        .collect();
    rows.sort_by(|a, b| (b.1 + b.2, b.0).cmp(&(a.1 + a.2, a.0)).then_with(|| a.3.peer.cmp(&b.3.peer)));
    let _ = writeln!(out, "\n{:<26} {:>5} {:>12} {:>12} {:>12}  user", "client", "", "requests/s", "in", "out");
    for (requests, received, sent, connection) in rows.iter().take(MOST_CLIENTS) {
        let line = format!(
            "{:<26} {:>5} {:>12.0} {:>12} {:>12}  {}",
            printable(&connection.peer),
            printable(&connection.protocol),
            between.per_second(*requests),
            speed(between.per_second(*received)),
            speed(between.per_second(*sent)),
            printable(users.get(connection.peer.as_str()).copied().unwrap_or_default()),
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

fn speed(bytes_per_second: f64) -> String {
    format!("{:.1} MB/s", bytes_per_second / 1e6)
}

fn ratio(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1}", part / whole) } else { "-".into() }
}

/// `12.3us`.
fn time(nanoseconds: Option<f64>) -> String {
    match nanoseconds {
        None => "-".into(),
        Some(ns) if ns < 1e3 => format!("{ns:.0}ns"),
        Some(ns) if ns < 1e6 => format!("{:.1}us", ns / 1e3),
        Some(ns) if ns < 1e9 => format!("{:.1}ms", ns / 1e6),
        Some(ns) => format!("{:.1}s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::{Numbers, Operation, Session};
    use super::*;

    fn moment(uptime_seconds: f64, reads: u64, bytes: u64) -> Snapshot {
        let histogram = vfs::metrics::Histogram::default();
        (0..reads).for_each(|_| histogram.record(10_000));
        let latency_ns = Numbers::from(&Distribution::of(&histogram));
        let read =
            Operation { protocol: "smb".into(), name: "read".into(), count: reads, errors: reads / 10, latency_ns };
        let peer = "10.0.0.7:5000".to_owned();
        let connection = Connection {
            protocol: "smb".into(),
            peer: peer.clone(),
            age_seconds: uptime_seconds,
            requests: reads,
            sent_bytes: bytes,
            ..Connection::default()
        };
        let counters = [
            ("frames", reads),
            ("recv_calls", reads / 4),
            ("sent_bytes", bytes),
            ("read_bytes", bytes),
            ("read_pages", reads / 4),
            ("read_copy", reads - reads / 4),
        ];
        Snapshot {
            pid: 1,
            uptime_seconds,
            counters: counters.map(|(name, value)| (name.to_owned(), value)).into(),
            operations: vec![read],
            connections: vec![connection],
            sessions: vec![Session { user: "anna\x1b[2J".into(), channels: vec![peer], ..Session::default() }],
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_frame_shows_what_happened_in_between() {
        let frame = frame(&moment(10.0, 1000, 1_000_000), &moment(12.0, 1400, 5_000_000));
        assert!(frame.contains("200 requests/s  in 0.0 MB/s  out 2.0 MB/s  4.0 requests a receive"), "{frame}");
        assert!(frame.contains("pages 25 %  copied 75 %"), "{frame}");
        let read = frame.lines().find(|line| line.starts_with("smb read")).unwrap();
        let cells: Vec<_> = read.split_whitespace().collect();
        assert_eq!(cells[2..4], ["200", "20"], "{read}");
        assert_eq!((cells[4], cells[5]), ("10.0us", "10.0us"), "{read}");
        let client = frame.lines().find(|line| line.starts_with("10.0.0.7:5000")).unwrap();
        assert!(client.contains(" 200 ") && client.contains("2.0 MB/s") && client.contains("anna"), "{client}");
        assert!(frame.chars().all(|letter| letter == '\n' || !letter.is_control()), "a user's name gives no orders");
    }

    #[test]
    fn two_looks_at_one_moment_and_a_server_that_began_anew_are_no_trouble() {
        let now = moment(10.0, 1000, 1_000_000);
        assert!(frame(&now, &now).contains("0 requests/s"));
        let restarted = Snapshot { pid: 2, ..moment(2.0, 10, 100) };
        assert!(frame(&now, &restarted).contains("5 requests/s"));
    }
}
