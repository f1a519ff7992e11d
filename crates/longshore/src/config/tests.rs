//! The configuration file as people write it: good ones, wrong ones, and the example that documents every key.

use std::collections::BTreeSet;

use nfs_server::Shown;

use super::*;

const EXAMPLE: &str = include_str!("../../../../longshore.example.toml");

fn parse(text: &str) -> Result<Config, Vec<Problem>> {
    Config::parse(text, Path::new("/etc/longshore"))
}

/// The only problem of `text`, as it is shown.
fn problem(text: &str) -> String {
    let problems = parse(text).expect_err("a mistake");
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].to_string()
}

/// The example with its commented keys put to use.
fn whole_example() -> String {
    let is_key = |rest: &str| rest.starts_with('[') || rest.split(" = ").next().is_some_and(|key| !key.contains(' '));
    EXAMPLE
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| is_key(rest) && !rest.is_empty()).unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_example_is_the_defaults() {
    let example = parse(EXAMPLE).unwrap();
    assert_eq!(Config { lines: Lines::new(), ..example }, Config::default());
}

#[test]
fn the_example_has_every_key_and_shows_the_defaults_of_a_share() {
    let (config, found) = sections::read(&whole_example(), Path::new("/"));
    assert_eq!(found.problems, []);
    let known: BTreeSet<_> = found.known.iter().map(|(s, k)| (s.clone(), k.to_string())).collect();
    let shown: BTreeSet<_> = found.lines.into_keys().collect();
    assert_eq!(known, shown);
    assert!(known.len() > 50, "the example was not read: {known:?}");
    let force = Some("media".to_owned());
    let share = Share { force_user: force.clone(), force_group: force, ..Share::new("docs", "/srv/docs") };
    assert_eq!(config.shares, [share]);
}

#[test]
fn an_empty_file_is_the_defaults() {
    assert_eq!(parse("").unwrap(), Config::default());
}

#[test]
fn values_are_taken() {
    let config = parse(
        "[server]\nsmb = [\"0.0.0.0:445\", \"[::1]:4450\"]\nsigning = \"required\"\nciphers = [\"aes-256-gcm\"]\n\
         users = \"db\"\nmin_dialect = \"3.0\"\n[limits]\nmax_read_bytes = \"1 MiB\"\nqueued_reply_bytes = 2097152\n\
         [data-path]\npage_read_bytes = \"off\"\nshards = 3\ncongestion_control = \"system\"\n\
         send_buffer_bytes = \"1MiB\"\nbusy_poll_us = 50\nno_delay = false\njoin_pages_below_bytes = \"off\"\ngather_requests = false\n\
         await_large_requests = false\n\
         [share.\"My Docs\"]\npath = \"docs\"\ncreate_mask = \"0640\"\ndirectory_mask = 0o750\nveto = [\"*.tmp\"]\n\
         encryption = \"required\"\n",
    )
    .unwrap();
    assert_eq!(config.server.smb, ["0.0.0.0:445".parse().unwrap(), "[::1]:4450".parse().unwrap()]);
    assert!(config.server.signing_required);
    assert_eq!(config.server.ciphers, [Cipher::Aes256Gcm]);
    assert_eq!(config.server.users.as_deref(), Some(Path::new("/etc/longshore/db")));
    assert_eq!(config.server.min_dialect, Dialect::V3_0);
    assert_eq!((config.limits.max_read_bytes, config.limits.queued_reply_bytes), (1 << 20, 2 << 20));
    assert_eq!((config.data_path.page_read_bytes, config.data_path.shards), (None, Some(3)));
    assert_eq!(config.data_path.congestion_control, None);
    assert_eq!((config.data_path.send_buffer_bytes, config.data_path.receive_buffer_bytes), (Some(1 << 20), None));
    assert_eq!((config.data_path.busy_poll_us, config.data_path.no_delay), (Some(50), false));
    assert!(!config.data_path.await_large_requests);
    assert!(!config.data_path.gather_requests && config.data_path.join_pages_below_bytes.is_none());
    let owners = parse("[server]\nnfs_owners = \"names\"\nnfs_domain = \"example.com\"").unwrap().server.nfs_owners;
    assert_eq!((owners.domain.as_deref(), owners.shown), (Some("example.com"), Shown::Names));
    let share = &config.shares[0];
    assert_eq!((share.name.as_str(), share.path.as_path()), ("My Docs", Path::new("/etc/longshore/docs")));
    assert_eq!((share.create_mask, share.directory_mask), (0o640, 0o750));
    assert!(share.encryption_required);
    assert_eq!(config.line("share.My Docs", "veto"), Some(24));
    assert_eq!(parse("[server]\nsmb = \"off\"").unwrap().server.smb, []);
}

#[test]
fn unknown_keys_are_mistakes_with_a_line_and_a_suggestion() {
    assert_eq!(problem("[server]\n\nsining = \"offered\"\n"), "3: server.sining: unknown key; did you mean `signing`?");
    assert_eq!(problem("[limit]\n"), "1: limit: unknown key; did you mean `limits`?");
    assert_eq!(problem("[data_path]\n"), "1: data_path: unknown key; did you mean `data-path`?");
    let text = "[share.a]\npath = \"/\"\nread-only = true\n";
    assert_eq!(problem(text), "3: share.a.read-only: unknown key; did you mean `read_only`?");
    assert!(problem("[log]\nxyzzy = 1\n").ends_with("unknown key; there are level, format"));
}

#[test]
fn wrong_values_say_what_to_write() {
    for (text, said) in [
        ("[server]\nsmb = 4450", "2: server.smb: must be an address such as"),
        ("[server]\nsmb = \"localhost\"", "2: server.smb: `localhost` is no address and port"),
        ("[server]\nencryption = \"require\"", "did you mean \"required\"?"),
        ("[server]\nciphers = []", "must not be empty"),
        ("[server]\nciphers = [\"aes-128-gcm\", \"AES-128-GCM\"]", "same word twice"),
        ("[server]\nguest = \"yes\"", "2: server.guest: must be true or false, not a string"),
        ("[server]\nmin_dialect = \"3.0\"\nmax_dialect = \"2.1\"", "2: server.min_dialect: is newer"),
        ("[server]\nnfs_owners = \"names\"", "2: server.nfs_owners: needs nfs_domain"),
        ("[server]\nnfs_owners = \"name\"", "did you mean \"names\"?"),
        ("[server]\nnfs_domain = \"@example.com\"", "2: server.nfs_domain: must be a domain such as"),
        ("[server]\nnfs_domain = \"\"", "must not be empty"),
        ("[limits]\nconnections = 0", "out of range"),
        ("[limits]\ncredits = 70000", "70000 is out of range"),
        ("[limits]\nmax_read_bytes = \"1KiB\"", "out of range: from 65536 to 8388608 bytes"),
        ("[limits]\nmax_read_bytes = \"lots\"", "must be a size such as"),
        ("[log]\nlevel = \"inof\"", "2: log.level: `inof` is no log level"),
        ("[data-path]\nshards = \"all\"", "a number or \"auto\""),
        ("[data-path]\ncongestion_control = \"cubic reno\"", "no name of a congestion control"),
        (
            "[data-path]\nsend_buffer_bytes = \"off\"",
            "must be a size such as \"64KiB\" or \"8MiB\", not a string, or \"auto\"",
        ),
        ("[data-path]\nreceive_buffer_bytes = 100", "out of range: from 4096 to 1073741824 bytes, or \"auto\""),
        ("[data-path]\nbusy_poll_us = \"50\"", "a number of microseconds or \"system\""),
        ("[data-path]\nbusy_poll_us = 20000", "20000 is out of range: the most is 10000"),
        ("[data-path]\nno_delay = 1", "must be true or false"),
        ("[share.a]\npath = \"/\"\ncreate_mask = 644", "would be read as decimal"),
        ("[share.a]\npath = \"/\"\ncreate_mask = \"0999\"", "octal digits"),
        ("[share.a]\npath = \"/\"\nusers = \"anna\"", "must be a list"),
        ("[share.a]\npath = \"/\"\nveto = [\"*.tmp\", \"a/b\"]", "3: share.a.veto: `a/b` is no pattern"),
        ("[share.a]\ncomment = \"x\"", "1: share.a: has no path"),
        ("[share.\"a/b\"]\npath = \"/\"", "none of"),
        ("[share.\"ipc$\"]\npath = \"/\"", "1: share.ipc$: IPC$ is the name"),
        ("share = 3", "1: share: must be a section"),
    ] {
        let problems = parse(text).expect_err(text);
        assert!(problems[0].to_string().contains(said), "{text}: {}", problems[0]);
    }
}

#[test]
fn shares_that_differ_only_in_case_are_one_name() {
    let said = problem("[share.Docs]\npath = \"/a\"\n[share.docs]\npath = \"/b\"\n");
    assert!(said.contains("second share of the name Docs"), "{said}");
}

#[test]
fn what_is_no_toml_is_told_with_its_line() {
    let said = problem("[server]\nname = \n");
    assert!(said.starts_with("2: "), "{said}");
    assert!(problem("[share.a]\npath = \"/\"\npath = \"/\"\n").starts_with("3: "));
}

#[test]
fn every_mistake_is_told_not_only_the_first() {
    let problems = parse("[server]\nguest = 1\nnmae = \"x\"\n[limits]\ncredits = 0\n").unwrap_err();
    let lines: Vec<_> = problems.iter().map(|p| p.line).collect();
    assert_eq!(lines, [Some(2), Some(3), Some(5)]);
}

#[test]
fn metrics_are_at_an_address_a_socket_or_nowhere() {
    let metrics = |text: &str| parse(&format!("[server]\nmetrics = \"{text}\"")).map(|config| config.server.metrics);
    assert_eq!(metrics("off"), Ok(Metrics::Off));
    assert_eq!(metrics("[::1]:9445"), Ok(Metrics::At("[::1]:9445".parse().unwrap())));
    assert_eq!(metrics("unix:run/m.sock"), Ok(Metrics::Unix("/etc/longshore/run/m.sock".into())));
    for wrong in ["9445", "unix:", "localhost:9445", "/run/m.sock"] {
        assert!(metrics(wrong).is_err(), "{wrong}");
    }
}
