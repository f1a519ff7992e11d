//! A [`Snapshot`] as Prometheus reads it: its text format, version 0.0.4. `docs/metrics.md` says what each metric means; a
//! test holds the two together. Nothing that a client chooses becomes a label, so that the number of series is bounded.

use std::fmt::Write;

use super::snapshot::{Numbers, Operation, Snapshot};

/// What the text is called in HTTP.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Buckets of durations, as powers of two of nanoseconds: 1 us to 17 s. There the histograms' own buckets end, so that
/// the counts are exact.
const DURATIONS: std::ops::RangeInclusive<u32> = 10..=34;
/// Buckets of small counts, as powers of two.
const COUNTS: std::ops::RangeInclusive<u32> = 0..=7;

/// The text.
pub fn text(now: &Snapshot) -> String {
    let mut out = Text::default();
    about(now, &mut out);
    connections(now, &mut out);
    data_path(now, &mut out);
    smb(now, &mut out);
    nfs(now, &mut out);
    holdings(now, &mut out);
    out.0
}

fn about(now: &Snapshot, out: &mut Text) {
    out.family("longshore_build_info", "gauge", "The version of the server.");
    out.value(&[("version", &now.version)], 1);
    out.family("longshore_uptime_seconds", "gauge", "How long the server has been running.");
    out.value(&[], now.uptime_seconds);
    out.family("longshore_resident_memory_bytes", "gauge", "Memory of the process in the machine's memory.");
    out.value(&[], now.memory.resident_bytes);
    out.family("longshore_buffers_bytes", "gauge", "Buffer memory, at work and kept for reuse.");
    out.value(&[("state", "used")], now.memory.buffers_used_bytes);
    out.value(&[("state", "idle")], now.memory.buffers_idle_bytes);
    out.family("longshore_worker_jobs", "gauge", "Jobs that may wait for a device, running and queued.");
    out.value(&[], now.worker_jobs);
}

fn connections(now: &Snapshot, out: &mut Text) {
    out.family("longshore_connections", "gauge", "Connections open now.");
    for protocol in ["smb", "nfs"] {
        out.value(&[("protocol", protocol)], now.connections.iter().filter(|c| c.protocol == protocol).count());
    }
    let counters = [
        ("longshore_connections_accepted_total", "accepted", "Connections accepted."),
        ("longshore_connections_ended_total", "ended", "Connections ended."),
    ];
    out.counters(now, &counters);
}

fn data_path(now: &Snapshot, out: &mut Text) {
    let counters = [
        ("longshore_receive_calls_total", "recv_calls", "Calls that received bytes."),
        ("longshore_received_bytes_total", "recv_bytes", "Bytes received."),
        ("longshore_frames_total", "frames", "Complete requests received, a compound counted once."),
        ("longshore_send_calls_total", "send_calls", "Calls that sent bytes."),
        ("longshore_sent_bytes_total", "sent_bytes", "Bytes sent."),
        ("longshore_replies_total", "replies", "Replies that left whole."),
        ("longshore_page_replies_total", "page_replies", "Replies whose body were file pages moved by splice."),
        ("longshore_gather_begun_total", "gather_begun", "Times a connection began to let small requests gather."),
        ("longshore_gather_in_vain_total", "gather_in_vain", "Times it ended because nothing more came."),
        ("longshore_gather_wakeups_total", "gather_wakeups", "Wake-ups of connections that let requests gather."),
        ("longshore_gather_frames_total", "gather_frames", "Requests those wake-ups brought."),
        ("longshore_awaited_total", "awaited", "Large requests that woke the server once, when all of them was there."),
        ("longshore_awaited_in_vain_total", "awaited_in_vain", "Large requests whose rest did not come in time."),
    ];
    out.counters(now, &counters);
    out.family("longshore_frames_per_receive", "histogram", "Complete requests of each call that received bytes.");
    out.histogram(&[], &now.frames_per_recv, COUNTS, 1.0);
    out.family("longshore_replies_per_send", "histogram", "Replies that each call that sent bytes has finished.");
    out.histogram(&[], &now.replies_per_send, COUNTS, 1.0);
}

fn smb(now: &Snapshot, out: &mut Text) {
    let commands: Vec<_> = now.operations.iter().filter(|operation| operation.protocol == "smb").collect();
    out.operations("longshore_smb", "SMB requests", &commands, |command| vec![("command", command.name.clone())]);
    let reads = ["pages", "copy", "signed", "sealed"];
    out.family("longshore_smb_reads_total", "counter", "READs of files, by the path of their data.");
    for path in reads {
        out.value(&[("path", path)], now.counter(&format!("read_{path}")));
    }
    out.family("longshore_smb_read_bytes_total", "counter", "Bytes read, by their path.");
    let other: u64 = ["pages", "signed", "sealed"].iter().map(|p| now.counter(&format!("read_{p}_bytes"))).sum();
    for path in reads {
        let copied = now.counter("read_bytes").saturating_sub(other);
        let bytes = if path == "copy" { copied } else { now.counter(&format!("read_{path}_bytes")) };
        out.value(&[("path", path)], bytes);
    }
    out.writes(now, "longshore_smb", "");
    let counters = [
        ("longshore_smb_reads_waited_total", "read_waited", "READs that had to wait on a worker."),
        ("longshore_smb_parked_total", "parked", "Requests parked before they were answered."),
        ("longshore_smb_breaks_total", "breaks", "Breaks of oplocks and leases sent."),
    ];
    out.counters(now, &counters);
    out.family("longshore_smb_logins_total", "counter", "Logins.");
    out.value(&[("result", "ok")], now.counter("logins"));
    out.value(&[("result", "failed")], now.counter("failed_logins"));
    out.family("longshore_smb_sessions", "gauge", "Sessions logged in now.");
    out.value(&[], now.sessions.len());
}

fn nfs(now: &Snapshot, out: &mut Text) {
    let operations: Vec<_> = now.operations.iter().filter(|operation| operation.protocol != "smb").collect();
    let labels = |o: &Operation| vec![("protocol", o.protocol.clone()), ("operation", o.name.clone())];
    out.operations("longshore_nfs", "NFS calls and NFSv4 operations", &operations, labels);
    let pages = now.counter("nfs_read_pages_bytes");
    out.family("longshore_nfs_reads_total", "counter", "READs, by the path of their data.");
    out.value(&[("path", "pages")], now.counter("nfs_read_pages"));
    out.value(&[("path", "copy")], now.counter("nfs_read_copy"));
    out.family("longshore_nfs_read_bytes_total", "counter", "Bytes read, by their path.");
    out.value(&[("path", "pages")], pages);
    out.value(&[("path", "copy")], now.counter("nfs_read_bytes").saturating_sub(pages));
    out.writes(now, "longshore_nfs", "nfs_");
    let counters = [
        ("longshore_nfs_reads_waited_total", "nfs_read_waited", "READs that had to wait on a worker."),
        ("longshore_nfs_file_opens_total", "nfs_file_opens", "Files opened for a call, because no open one was kept."),
        ("longshore_nfs_parked_total", "nfs_parked", "Calls parked before they were answered."),
        ("longshore_nfs_recalls_total", "nfs_recalls", "Delegations that clients were asked to give back."),
    ];
    out.counters(now, &counters);
    out.family("longshore_nfs_clients", "gauge", "NFSv4 clients, by how they stand.");
    for state in ["confirmed", "unconfirmed", "expired"] {
        out.value(&[("state", state)], now.nfs_clients.iter().filter(|client| client.state == state).count());
    }
}

fn holdings(now: &Snapshot, out: &mut Text) {
    let claims = &now.claims;
    out.family("longshore_files_in_use", "gauge", "Files that anybody holds anything on.");
    out.value(&[], claims.files);
    out.family("longshore_opens", "gauge", "Opens of files, whatever the protocol.");
    out.value(&[], claims.opens);
    out.family("longshore_smb_opens", "gauge", "Opens over SMB, of directories and pipes too.");
    out.value(&[], claims.smb_opens);
    out.family("longshore_locks", "gauge", "Byte ranges locked, whatever the protocol.");
    out.value(&[], claims.locks);
    out.family("longshore_caching_holders", "gauge", "Holders of leases, oplocks and delegations.");
    out.value(&[], claims.caching);
    out.family("longshore_nfs_delegations", "gauge", "Delegations of NFSv4.");
    out.value(&[], claims.delegations);
}

/// The text, and the family that is being written.
#[derive(Default)]
struct Text(String, &'static str);

impl Text {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.1 = name;
        // Writing to a text does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.sample("", labels, value);
    }

    fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let name = self.1;
        let labels = match labels {
            [] => String::new(),
            some => {
                let pairs: Vec<_> = some.iter().map(|(name, text)| format!("{name}=\"{}\"", escaped(text))).collect();
                format!("{{{}}}", pairs.join(","))
            }
        };
        let _ = writeln!(self.0, "{name}{suffix}{labels} {value}");
    }

    fn counters(&mut self, now: &Snapshot, counters: &[(&'static str, &str, &str)]) {
        for (name, counter, help) in counters {
            self.family(name, "counter", help);
            self.value(&[], now.counter(counter));
        }
    }

    fn writes(&mut self, now: &Snapshot, protocol: &str, prefix: &str) {
        let (count, bytes) = match protocol {
            "longshore_smb" => ("longshore_smb_writes_total", "longshore_smb_write_bytes_total"),
            _ => ("longshore_nfs_writes_total", "longshore_nfs_write_bytes_total"),
        };
        let get = |name: &str| now.counter(&format!("{prefix}{name}"));
        self.family(count, "counter", "WRITEs of files, by where they were done.");
        self.value(&[("path", "inline")], get("write_inline"));
        self.value(&[("path", "worker")], get("write_worker"));
        let on_worker = get("write_worker_bytes");
        self.family(bytes, "counter", "Bytes written, by where.");
        self.value(&[("path", "inline")], get("write_bytes").saturating_sub(on_worker));
        self.value(&[("path", "worker")], on_worker);
    }

    fn operations(
        &mut self,
        protocol: &str,
        what: &str,
        all: &[&Operation],
        labels: impl Fn(&Operation) -> Vec<(&'static str, String)>,
    ) {
        let (count, errors, duration) = match protocol {
            "longshore_smb" => {
                ("longshore_smb_requests_total", "longshore_smb_errors_total", "longshore_smb_request_duration_seconds")
            }
            _ => {
                ("longshore_nfs_requests_total", "longshore_nfs_errors_total", "longshore_nfs_request_duration_seconds")
            }
        };
        self.family(count, "counter", &format!("{what} answered, failures included."));
        each(all, &labels, |one, labels| self.value(labels, one.count));
        self.family(errors, "counter", &format!("{what} answered with an error."));
        each(all, &labels, |one, labels| self.value(labels, one.errors));
        self.family(duration, "histogram", "From the whole request to its reply at the socket.");
        let timed: Vec<_> = all.iter().copied().filter(|one| one.latency_ns.count > 0).collect();
        each(&timed, &labels, |one, labels| self.histogram(labels, &one.latency_ns, DURATIONS, 1e9));
    }

    /// `unit` is how many of the numbers make one of what is shown.
    fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        numbers: &Numbers,
        powers: std::ops::RangeInclusive<u32>,
        unit: f64,
    ) {
        let distribution = numbers.distribution();
        // What is no larger than a bound and what is smaller differ where numbers are small.
        let whole = unit == 1.0;
        for power in powers {
            let bound = if whole { ((1u64 << power) - 1) as f64 } else { (1u64 << power) as f64 };
            let bound = (bound / unit).to_string();
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.sample("_bucket", &labels, distribution.below_power(power));
        }
        let count = distribution.count();
        let infinite: Vec<_> = labels.iter().copied().chain([("le", "+Inf")]).collect();
        self.sample("_bucket", &infinite, count);
        self.sample("_sum", labels, distribution.sum() as f64 / unit);
        self.sample("_count", labels, count);
    }
}

/// Calls `show` with each operation and its labels.
fn each(
    all: &[&Operation],
    labels: &impl Fn(&Operation) -> Vec<(&'static str, String)>,
    mut show: impl FnMut(&Operation, &[(&str, &str)]),
) {
    for one in all {
        let labels = labels(one);
        let labels: Vec<_> = labels.iter().map(|(name, text)| (*name, text.as_str())).collect();
        show(one, &labels);
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
#[path = "prometheus_tests.rs"]
mod tests;
