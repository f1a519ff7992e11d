//! Which keys each section of the configuration file has, and what their values must look like. It reads like
//! `longshore.example.toml`, which documents the same keys; a test holds the two together.

use std::path::Path;

use nfs_server::{Sec, Shown, Squash};
use smb_wire::crypto::{Cipher, SigningAlgorithm};
use smb_wire::smb2::Dialect;
use toml::de::DeTable;

use super::table::{Found, Journal, Section};
use super::units::{
    congestion_control, count, count_or_auto, domain, flag, is_share_name, listeners, mode, networks, one_of,
    parse_metrics, patterns, size, size_or, some_of, text, word, words,
};
use super::{Config, DataPath, Encryption, Limits, Log, LogFormat, Portmapper, Problem, Server, Share};

const DIALECTS: [(&str, Dialect); 5] = [
    ("2.0.2", Dialect::V2_0_2),
    ("2.1", Dialect::V2_1),
    ("3.0", Dialect::V3_0),
    ("3.0.2", Dialect::V3_0_2),
    ("3.1.1", Dialect::V3_1_1),
];
const CIPHERS: [(&str, Cipher); 4] = [
    ("aes-128-gcm", Cipher::Aes128Gcm),
    ("aes-256-gcm", Cipher::Aes256Gcm),
    ("aes-128-ccm", Cipher::Aes128Ccm),
    ("aes-256-ccm", Cipher::Aes256Ccm),
];
const SIGNING_ALGORITHMS: [(&str, SigningAlgorithm); 3] = [
    ("aes-gmac", SigningAlgorithm::AesGmac),
    ("aes-cmac", SigningAlgorithm::AesCmac),
    ("hmac-sha256", SigningAlgorithm::HmacSha256),
];
const ENCRYPTION: [(&str, Encryption); 3] =
    [("off", Encryption::Off), ("offered", Encryption::Offered), ("required", Encryption::Required)];
const REQUIRED: [(&str, bool); 2] = [("offered", false), ("required", true)];
const PORTMAPPER: [(&str, Portmapper); 4] = [
    ("auto", Portmapper::Auto),
    ("own", Portmapper::Own),
    ("register", Portmapper::Register),
    ("off", Portmapper::Off),
];
const SQUASH: [(&str, Squash); 3] = [("root", Squash::Root), ("all", Squash::All), ("none", Squash::None)];
const SEC: [(&str, Sec); 4] = [("sys", Sec::Sys), ("krb5", Sec::Krb5), ("krb5i", Sec::Krb5i), ("krb5p", Sec::Krb5p)];
const OWNERS: [(&str, Shown); 3] = [("auto", Shown::Auto), ("numbers", Shown::Numbers), ("names", Shown::Names)];
const FORMATS: [(&str, LogFormat); 2] = [("human", LogFormat::Human), ("json", LogFormat::Json)];

/// SMB lengths are 32 bits wide, and no client asks for more than this at once.
const MAX_TRANSFER_BYTES: u64 = 8 << 20;
/// What every SMB 2 server must take (MS-SMB2 3.3.5.4).
const MIN_TRANSFER_BYTES: u64 = 64 << 10;

/// What a socket may buffer; the kernel's own counter has 31 bits, and it doubles what it is told.
const MAX_SOCKET_BUFFER_BYTES: u64 = 1 << 30;
/// A core is kept from everything else for as long.
const MAX_BUSY_POLL_US: u32 = 10_000;

/// Reads the whole file.
pub(super) fn parse(text: &str, directory: &Path) -> Result<Config, Vec<Problem>> {
    let (config, found) = read(text, directory);
    if !found.problems.is_empty() {
        return Err(found.problems);
    }
    Ok(Config { lines: found.lines, ..config })
}

/// The same, with what was noted on the way.
pub(super) fn read(text: &str, directory: &Path) -> (Config, Found) {
    let journal = Journal::new(text);
    let mut config = Config::default();
    match DeTable::parse(text) {
        Ok(table) => whole(Section::new(&journal, String::new(), table.get_ref()), &mut config, directory, &journal),
        Err(error) => journal.problem(error.span(), String::new(), error.message().replace('\n', "; ")),
    }
    (config, journal.into_found())
}

fn whole<'a>(mut root: Section<'a, '_>, config: &mut Config, directory: &Path, journal: &'a Journal<'a>) {
    if let Some(table) = root.table("server") {
        server(Section::new(journal, "server".into(), table), &mut config.server, directory);
    }
    if let Some(table) = root.table("limits") {
        limits(Section::new(journal, "limits".into(), table), &mut config.limits);
    }
    if let Some(table) = root.table("log") {
        log(Section::new(journal, "log".into(), table), &mut config.log);
    }
    if let Some(table) = root.table("data-path") {
        data_path(Section::new(journal, "data-path".into(), table), &mut config.data_path);
    }
    if let Some(table) = root.table("share") {
        shares(journal, table, &mut config.shares, directory);
    }
    root.finish();
}

fn server(mut section: Section<'_, '_>, server: &mut Server, directory: &Path) {
    section.set("name", &mut server.name, |v| word(v).map(Some));
    section.set("workgroup", &mut server.workgroup, |v| word(v).map(Some));
    section.set("smb", &mut server.smb, listeners);
    section.set("nfs", &mut server.nfs, listeners);
    section.set("portmapper", &mut server.portmapper, one_of(&PORTMAPPER));
    section.set("metrics", &mut server.metrics, |v| parse_metrics(&word(v)?, directory));
    section.set("metrics_public", &mut server.metrics_public, flag);
    section.set("state", &mut server.state, |v| word(v).map(|path| Some(directory.join(path))));
    section.set("users", &mut server.users, |v| word(v).map(|path| Some(directory.join(path))));
    section.set("keytab", &mut server.keytab, |v| word(v).map(|path| Some(directory.join(path))));
    section.set("nfs_domain", &mut server.nfs_owners.domain, |v| domain(v).map(Some));
    section.set("nfs_owners", &mut server.nfs_owners.shown, one_of(&OWNERS));
    section.set("min_dialect", &mut server.min_dialect, one_of(&DIALECTS));
    section.set("max_dialect", &mut server.max_dialect, one_of(&DIALECTS));
    section.set("signing", &mut server.signing_required, one_of(&REQUIRED));
    section.set("signing_algorithms", &mut server.signing_algorithms, some_of(&SIGNING_ALGORITHMS));
    section.set("encryption", &mut server.encryption, one_of(&ENCRYPTION));
    section.set("ciphers", &mut server.ciphers, some_of(&CIPHERS));
    section.set("guest", &mut server.guest, flag);
    section.set("ntlmv1", &mut server.ntlmv1, flag);
    if server.nfs_owners.shown == Shown::Names && server.nfs_owners.domain.is_none() {
        section.wrong("nfs_owners", None, "needs nfs_domain beside it, as names travel with their domain");
    }
    if server.min_dialect as u16 > server.max_dialect as u16 {
        section.wrong("min_dialect", None, "is newer than max_dialect: no client could connect");
    }
    section.finish();
}

fn limits(mut section: Section<'_, '_>, limits: &mut Limits) {
    let transfer = || size(MIN_TRANSFER_BYTES, MAX_TRANSFER_BYTES);
    section.set("connections", &mut limits.connections, count(1));
    section.set("connections_per_address", &mut limits.connections_per_address, count(1));
    section.set("sessions_per_connection", &mut limits.sessions_per_connection, count(1));
    section.set("trees_per_session", &mut limits.trees_per_session, count(1));
    section.set("opens_per_session", &mut limits.opens_per_session, count(1));
    section.set("credits", &mut limits.credits, count(1));
    section.set("handshake_seconds", &mut limits.handshake_seconds, count(1));
    section.set("stop_seconds", &mut limits.stop_seconds, count(0));
    section.set("queued_reply_bytes", &mut limits.queued_reply_bytes, size(1 << 20, 1 << 30));
    section.set("buffers_in_use_bytes", &mut limits.buffers_in_use_bytes, size(16 << 20, 1 << 40));
    section.set("buffer_pool_bytes", &mut limits.buffer_pool_bytes, size(0, 1 << 40));
    section.set("max_read_bytes", &mut limits.max_read_bytes, transfer());
    section.set("max_write_bytes", &mut limits.max_write_bytes, transfer());
    section.set("max_transact_bytes", &mut limits.max_transact_bytes, size(MIN_TRANSFER_BYTES, MAX_TRANSFER_BYTES));
    section.set("nfs_lease_seconds", &mut limits.nfs_lease_seconds, count(1));
    section.finish();
}

fn log(mut section: Section<'_, '_>, log: &mut Log) {
    section.set("level", &mut log.level, |v| {
        let level = word(v)?;
        crate::logging::filter(&level).map(|_| level)
    });
    section.set("format", &mut log.format, one_of(&FORMATS));
    section.finish();
}

fn data_path(mut section: Section<'_, '_>, path: &mut DataPath) {
    let socket_buffer = || size_or("auto", 4 << 10, MAX_SOCKET_BUFFER_BYTES);
    section.set("page_read_bytes", &mut path.page_read_bytes, size_or("off", 1, u64::from(u32::MAX)));
    section.set("worker_write_bytes", &mut path.worker_write_bytes, size(0, u64::from(u32::MAX)));
    section.set("shards", &mut path.shards, count_or_auto(1024));
    section.set("workers", &mut path.workers, count_or_auto(4096));
    section.set("congestion_control", &mut path.congestion_control, congestion_control);
    section.set("send_buffer_bytes", &mut path.send_buffer_bytes, socket_buffer());
    section.set("receive_buffer_bytes", &mut path.receive_buffer_bytes, socket_buffer());
    section.set("no_delay", &mut path.no_delay, flag);
    section.set("join_pages_below_bytes", &mut path.join_pages_below_bytes, size_or("off", 1, u64::from(u32::MAX)));
    section.set("busy_poll_us", &mut path.busy_poll_us, |v| match v.as_str() {
        Some("system") => Ok(None),
        Some(_) => Err("must be a number of microseconds or \"system\"".into()),
        None => match count(0)(v)? {
            us if us > MAX_BUSY_POLL_US => Err(format!("{us} is out of range: the most is {MAX_BUSY_POLL_US}")),
            us => Ok(Some(us)),
        },
    });
    section.set("gather_requests", &mut path.gather_requests, flag);
    section.set("await_large_requests", &mut path.await_large_requests, flag);
    section.finish();
}

fn shares<'a, 'i>(journal: &'a Journal<'a>, table: &'a DeTable<'i>, shares: &mut Vec<Share>, directory: &Path) {
    for (key, value) in table {
        let name: &str = key.get_ref();
        let path = format!("share.{name}");
        let wrong = |what: String| journal.problem(Some(key.span()), path.clone(), what);
        if let Err(what) = is_share_name(name) {
            wrong(what);
        }
        if let Some(other) = shares.iter().find(|s| s.name.to_lowercase() == name.to_lowercase()) {
            wrong(format!("is a second share of the name {}: case makes no difference", other.name));
        }
        let Some(table) = value.get_ref().as_table() else {
            wrong(format!("must be a section: write [share.{name}] and its path below"));
            continue;
        };
        let mut one = Share::new(name, "");
        share(Section::new(journal, path.clone(), table), &mut one, directory);
        if one.path.as_os_str().is_empty() && !table.keys().any(|k| k.get_ref() == "path") {
            wrong("has no path: write path = \"/the/directory\"".into());
        }
        shares.push(one);
    }
    shares.sort_by_key(|share| share.name.to_lowercase());
}

fn share(mut section: Section<'_, '_>, share: &mut Share, directory: &Path) {
    section.set("path", &mut share.path, |v| word(v).map(|path| directory.join(path)));
    section.set("comment", &mut share.comment, text);
    section.set("read_only", &mut share.read_only, flag);
    section.set("hidden", &mut share.hidden, flag);
    section.set("users", &mut share.users, words);
    section.set("read_only_users", &mut share.read_only_users, words);
    section.set("writers", &mut share.writers, words);
    section.set("force_user", &mut share.force_user, |v| word(v).map(Some));
    section.set("force_group", &mut share.force_group, |v| word(v).map(Some));
    section.set("create_mask", &mut share.create_mask, mode);
    section.set("directory_mask", &mut share.directory_mask, mode);
    section.set("veto", &mut share.veto, patterns);
    section.set("hide", &mut share.hide, patterns);
    section.set("hide_dot_files", &mut share.hide_dot_files, flag);
    section.set("case_sensitive", &mut share.case_sensitive, flag);
    section.set("short_names", &mut share.short_names, flag);
    section.set("encryption", &mut share.encryption_required, one_of(&REQUIRED));
    section.set("continuously_available", &mut share.continuously_available, flag);
    section.set("assume_no_devices", &mut share.assume_no_devices, flag);
    section.set("nfs_clients", &mut share.nfs_clients, networks);
    section.set("nfs_read_only_clients", &mut share.nfs_read_only_clients, networks);
    section.set("nfs_squash", &mut share.nfs_squash, one_of(&SQUASH));
    section.set("nfs_anon_uid", &mut share.nfs_anon_uid, count(0));
    section.set("nfs_anon_gid", &mut share.nfs_anon_gid, count(0));
    section.set("nfs_privileged_port", &mut share.nfs_privileged_port, flag);
    section.set("nfs_server_groups", &mut share.nfs_server_groups, flag);
    section.set("nfs_sec", &mut share.nfs_sec, some_of(&SEC));
    section.finish();
}
