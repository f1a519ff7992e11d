//! `longshore bench` from outside: the built binary measures the built binary. Nothing here looks at how fast anything is.

mod util;

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use util::{Server, home_with_share, longshore, serve};

const PASSWORD: &str = "correct horse";
/// Short runs: what is tested is what becomes of them.
const SHORT: [&str; 8] = ["--runtime", "250ms", "--ramp", "10ms", "--size", "1m", "--iodepth", "4"];

struct Bed {
    home: tempfile::TempDir,
    docs: String,
    server: Server,
}

impl Bed {
    fn new() -> Self {
        let (home, docs) = home_with_share();
        let mut command = serve(home.path(), &["--user", "anna", docs.as_str()]);
        command.env("LONGSHORE_PASSWORD", PASSWORD);
        Self { server: Server::start(command), home, docs }
    }

    fn url(&self) -> String {
        format!("smb://anna@{}/docs", self.server.address)
    }

    fn bench(&self, arguments: &[&str]) -> Output {
        bench(self.home.path(), arguments)
    }

    fn files(&self) -> usize {
        std::fs::read_dir(&self.docs).unwrap().count()
    }
}

fn bench(home: &Path, arguments: &[&str]) -> Output {
    let all: Vec<_> = ["bench"].into_iter().chain(arguments.iter().copied()).collect();
    longshore(home, &all).env("LONGSHORE_PASSWORD", PASSWORD).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_run_has_figures_and_leaves_nothing_behind() {
    let bed = Bed::new();
    let more = ["--rw", "randrw", "--bs", "4k", "--numjobs", "3", "--connections", "2", "--json"];
    let arguments = ["run", &bed.url(), "--runtime", "300ms", "--ramp-time", "20ms", "--size", "1m"];
    let output = bed.bench(&[&arguments[..], &more[..]].concat());
    assert!(output.status.success(), "{output:?}");
    let said = json(&output);
    let run = &said["runs"][0];
    let measured = &run["outcome"]["accepted"];
    let operations = measured["operations"].as_u64().unwrap();
    assert!(operations > 0);
    assert_eq!(measured["bytes"].as_u64(), Some(operations * 4_096));
    assert_eq!(measured["elapsed_ns"].as_u64(), Some(300_000_000));
    assert!(measured["client_cpu_ns"].as_u64() > Some(0), "{measured}");
    assert!(measured["server_cpu_ns"].as_u64() > Some(0), "the server is on this machine: {measured}");
    assert_eq!(run["server"], "longshore");
    assert_eq!(said["workload"]["rw"], "randrw");
    assert_eq!(bed.files(), 0);
}

#[test]
fn a_run_says_in_a_table_what_it_measured_and_files_can_stay() {
    let bed = Bed::new();
    let output = bed.bench(&[
        "run",
        &bed.url(),
        "--rw",
        "write",
        "--bs",
        "128k",
        "--size",
        "2m",
        "--runtime",
        "1s",
        "--ramp-time",
        "0",
        "--keep-files",
    ]);
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    assert!(said.contains("MiB/s") && said.contains("p99.9") && said.contains("server longshore"), "{said}");
    assert_eq!(bed.files(), 1);
    assert_eq!(std::fs::metadata(Path::new(&bed.docs).join("longshore-bench.0")).unwrap().len(), 2 << 20);
}

/// Arguments for a load on many files; the ones that use files up end long before their time.
fn on_files<'a>(url: &'a str, rw: &'a str) -> Vec<&'a str> {
    let uses_up = matches!(rw, "filecreate" | "filedelete");
    let runtime = if uses_up { "60s" } else { "250ms" };
    let shape = ["--bs", "4k", "--nrfiles", "150", "--numjobs", "2", "--ramp-time", "0", "--json"];
    [&["run", url, "--rw", rw, "--runtime", runtime][..], &shape[..]].concat()
}

fn judge_on_files(rw: &str, output: &Output) {
    assert!(output.status.success(), "{rw}: {output:?}");
    let said = json(output);
    let measured = &said["runs"][0]["outcome"]["accepted"];
    let operations = measured["operations"].as_u64().unwrap();
    assert!(operations > 0, "{rw}: {measured}");
    assert_eq!(measured["bytes"].as_u64(), Some(if rw == "fileread" { operations * 4_096 } else { 0 }), "{rw}");
    if matches!(rw, "filecreate" | "filedelete") {
        assert_eq!(operations, 2 * 150, "{rw}: each file once");
        assert!(measured["elapsed_ns"].as_u64() < Some(60_000_000_000), "{rw}: it ended with the last file");
    }
    assert_eq!(said["runs"][0]["figures"]["server_cpu_seconds_per_gib"].is_null(), rw != "fileread", "{rw}");
}

const ON_FILES: [&str; 5] = ["fileread", "filecreate", "filestat", "filelist", "filedelete"];

#[test]
fn many_files_are_gone_to_by_their_names_and_nothing_of_them_stays() {
    let bed = Bed::new();
    for rw in ON_FILES {
        judge_on_files(rw, &bed.bench(&on_files(&bed.url(), rw)));
        assert_eq!(bed.files(), 0, "{rw}");
    }
}

#[test]
fn a_file_that_is_not_what_it_should_be_fails_the_run() {
    let bed = Bed::new();
    let url = bed.url();
    let arguments = [&on_files(&url, "fileread")[..], &["--keep-files"]].concat();
    assert!(bed.bench(&arguments).status.success());
    let kept = Path::new(&bed.docs).join("longshore-bench.1.files-4096");
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 150);
    (0..150).for_each(|n| std::fs::write(kept.join(format!("file-{n:08}")), "short").unwrap());
    let output = bed.bench(&arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stdout).contains("has 5 bytes, not 4096"), "{output:?}");
}

#[test]
fn the_bare_loop_is_not_asked_for_names() {
    let bed = Bed::new();
    let (target, other) = (format!("a={}", bed.url()), format!("b={}", bed.url()));
    let limit = ["limit", &bed.docs, "--rw", "filestat"];
    let compare = ["compare", "--target", &target, "--target", &other, "--limit", &bed.docs, "--rw", "filestat"];
    for arguments in [&limit[..], &compare[..]] {
        let output = bed.bench(arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains("knows no names"), "{output:?}");
    }
}

#[test]
fn loads_on_files_are_compared_by_their_operations() {
    let bed = Bed::new();
    let (one, other) = (format!("one={}", bed.url()), format!("other={}", bed.url()));
    let matrix = ["--rw", "filestat,filedelete", "--nrfiles", "150", "--blocks", "2", "--runtime", "300ms"];
    let rest = ["--ramp", "0ms", "--iodepth", "4", "--measure", "throughput", "--json"];
    let output = bed.bench(&[&["compare", "--target", &one, "--target", &other][..], &matrix[..], &rest[..]].concat());
    assert!(output.status.success(), "{output:?}");
    let report = json(&output);
    assert_eq!(report["plan"]["block_sizes_bytes"], serde_json::json!([4_096]));
    for comparison in report["analysis"]["comparisons"].as_array().unwrap() {
        assert_eq!(comparison["gains"].as_array().unwrap().len(), 2, "{comparison}");
    }
    assert_eq!(bed.files(), 0);
}

#[test]
fn a_crowd_is_timed_client_by_client() {
    let bed = Bed::new();
    let who = ["--idle", "20", "--busy", "3", "--slow", "1", "--greedy", "1", "--json"];
    let arguments = ["crowd", &bed.url(), "--runtime", "300ms", "--ramp-time", "20ms", "--size", "1m"];
    let output = bed.bench(&[&arguments[..], &who[..]].concat());
    assert!(output.status.success(), "{output:?}");
    let said = json(&output);
    let clients = said["clients"].as_array().unwrap();
    // The slow one is there to be in the way; nobody times it.
    let greedy: Vec<_> = clients.iter().map(|client| client["greedy"].as_bool().unwrap()).collect();
    assert_eq!(greedy, [true, false, false, false]);
    assert!(clients.iter().all(|client| client["operations"].as_u64() > Some(0)), "{said}");
    assert!(said["busy"]["ratio"].as_f64() >= Some(1.0), "{said}");
    assert!(said["resident_bytes_idle"].as_u64() > Some(1 << 20), "the server is on this machine: {said}");
    assert_eq!(bed.files(), 0);
}

#[test]
fn nfs_is_measured_like_smb() {
    let (home, docs) = home_with_share();
    let [config, state] = ["c.toml", "state"].map(|name| home.path().join(name));
    let toml = format!("[share.docs]\npath = {docs:?}\nnfs_squash = \"none\"\nnfs_privileged_port = false\n");
    std::fs::write(&config, toml).unwrap();
    let [config, state] = [&config, &state].map(|path| path.to_str().unwrap());
    let server = Server::start(serve(home.path(), &["--nfs", "127.0.0.1:0", "--config", config, "--state", state]));
    let address = server.said.lines().find_map(|line| line.split_once("over NFS 3 and 4 on ")).unwrap().1;
    let port = address.rsplit_once(':').unwrap().1;
    for version in ["3", "4.0", "4.1", "4.2"] {
        let mount = if version == "3" { format!("&mountport={port}") } else { String::new() };
        let url = format!("nfs://{address}/docs?version={version}{mount}");
        let load = ["--rw", "randrw", "--bs", "4k", "--size", "1m", "--runtime", "250ms", "--ramp-time", "0", "--json"];
        let output = bench(home.path(), &[&["run", &url][..], &load[..]].concat());
        assert!(output.status.success(), "{version}: {output:?}");
        let said = json(&output);
        assert!(said["runs"][0]["figures"]["iops"].as_f64() > Some(0.0), "{said}");
        assert!(said["runs"][0]["negotiated"].as_str().unwrap().contains(version), "{said}");
        for rw in ON_FILES {
            judge_on_files(rw, &bench(home.path(), &on_files(&url, rw)));
        }
    }
    assert_eq!(std::fs::read_dir(&docs).unwrap().count(), 0);
}

#[test]
fn servers_are_compared_and_the_report_can_be_drawn_again() {
    let bed = Bed::new();
    let (one, other) = (format!("one={}", bed.url()), format!("other={}", bed.url()));
    let out = bed.home.path().join("results");
    let matrix = ["--rw", "randrw", "--bs", "4k", "--connections", "1,2", "--blocks", "3", "--seed", "7"];
    let targets =
        ["compare", "--sign", "--target", &one, "--target", &other, "--limit", &bed.docs, "--baseline", "other"];
    let results = ["--out", out.to_str().unwrap()];
    let output = bed.bench(&[&targets[..], &matrix[..], &SHORT[..], &results[..]].concat());
    assert!(output.status.success(), "{output:?}");
    let table = text(&output.stdout);
    assert!(table.contains("baseline other, 3 blocks") && !table.contains("INCOMPLETE"), "{table}");

    let file = out.join("report.json");
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(report["observations"].as_array().unwrap().len(), 3 * 2 * 3);
    let facts = report["facts"].as_array().unwrap();
    assert!(facts.iter().any(|f| f[0] == "one" && f[1].as_str().unwrap().contains(", signed, process")), "{facts:?}");
    // One target is compared, by rate and by the server's CPU time; the limit is not.
    assert_eq!(report["analysis"]["family_size"], 2 * 2);
    for cell in report["analysis"]["cells"].as_array().unwrap() {
        let is_limit = report["cells"][cell["cell"].as_u64().unwrap() as usize]["target"] == 2;
        assert_eq!(cell["of_ceiling"].is_null(), is_limit, "{cell}");
        assert!(cell["server_cpu_ns_per_operation"].as_f64() > Some(0.0), "{cell}");
    }
    assert_eq!(bed.files(), 0);

    let again = bed.bench(&["report", file.to_str().unwrap(), "--out", out.join("again").to_str().unwrap()]);
    assert!(again.status.success(), "{again:?}");
    assert_eq!(again.stdout, output.stdout);
    for name in ["report.json", "report.html"] {
        let [first, second] = [out.clone(), out.join("again")].map(|d| std::fs::read(d.join(name)).unwrap());
        assert!(first == second, "{name} is another");
    }
}

#[test]
fn a_target_that_is_down_fails_the_comparison_in_every_output() {
    let bed = Bed::new();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let file = bed.home.path().join("night.toml");
    let toml = format!(
        "bs = [\"4k\"]\nrw = [\"read\"]\nblocks = 2\n[[target]]\nname = \"up\"\nurl = \"{}\"\n[[target]]\nname = \"down\"\nurl = \"smb://anna@{address}/docs\"\n",
        bed.url()
    );
    std::fs::write(&file, toml).unwrap();
    let out = bed.home.path().join("results");
    let arguments = ["compare", "--file", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let output = bed.bench(&[&arguments[..], &SHORT[..]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let [table, errors] = [&output.stdout, &output.stderr].map(|bytes| text(bytes));
    assert!(table.contains("INCOMPLETE: 2 of 4 runs do not count. The first: failed: connect to"), "{table}");
    assert!(errors.contains("down cannot be measured") && errors.contains("2 of 4 runs do not count"), "{errors}");
    let [json, html] = ["report.json", "report.html"].map(|name| std::fs::read_to_string(out.join(name)).unwrap());
    assert!(html.contains("INCOMPLETE: 2 of 4 runs"));
    let report: Value = serde_json::from_str(&json).unwrap();
    let failed = |o: &&Value| o["outcome"]["discarded"]["reason"] == "failed";
    assert_eq!(report["observations"].as_array().unwrap().iter().filter(failed).count(), 2);
}

#[test]
fn the_machines_limit_is_measured_without_a_server() {
    let (home, docs) = home_with_share();
    for rw in ["read", "write", "randrw"] {
        let output = bench(
            home.path(),
            &[
                "limit",
                &docs,
                "--rw",
                rw,
                "--bs",
                "64k",
                "--size",
                "1m",
                "--runtime",
                "250ms",
                "--ramp-time",
                "0",
                "--numjobs",
                "2",
                "--json",
            ],
        );
        assert!(output.status.success(), "{output:?}");
        let runs = json(&output)["runs"].as_array().unwrap().clone();
        assert_eq!(runs.len(), 2);
        for run in runs {
            assert!(run["figures"]["iops"].as_f64() > Some(0.0), "{run}");
            assert!(run["figures"]["server_cpu_us_per_operation"].as_f64() > Some(0.0), "{run}");
        }
    }
    assert_eq!(std::fs::read_dir(&docs).unwrap().count(), 0);
}

#[test]
fn a_threshold_is_swept_and_each_run_is_seen_to_take_its_path() {
    let (home, docs) = home_with_share();
    let out = home.path().join("results");
    let sweep = ["threshold", &docs, "--thresholds", "off,64k", "--bs", "4k,128k", "--blocks", "2"];
    let output = bench(home.path(), &[&sweep[..], &SHORT[..], &["--out", out.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    assert!(said.contains("read 4 KiB × 1: rate not known; CPU not known; 0 blocks"), "both copy: {said}");
    assert!(said.contains("read 128 KiB × 1: rate ") && said.contains("no verdict; 2 blocks"), "{said}");
    assert!(said.contains("Recommended: nothing yet: more blocks"), "{said}");
    let json = std::fs::read_to_string(out.join("report.json")).unwrap();
    assert!(json.contains("moving against copying"));
    assert_eq!(std::fs::read_dir(&docs).unwrap().count(), 0);
}

#[test]
fn a_sweep_of_runs_that_took_another_path_fails() {
    let (home, docs) = home_with_share();
    // Nothing that is encrypted can be moved.
    let sweep = ["threshold", &docs, "--thresholds", "off,64k", "--bs", "128k", "--blocks", "2", "--encrypt", "--json"];
    let output = bench(home.path(), &[&sweep[..], &SHORT[..]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = json(&output);
    let reason = |o: &Value| {
        let moves = report["cells"][o["cell"].as_u64().unwrap() as usize]["target"] == 1;
        (moves, o["outcome"]["discarded"]["reason"].as_str().map(str::to_owned))
    };
    let reasons: Vec<_> = report["observations"].as_array().unwrap().iter().map(reason).collect();
    assert!(reasons.iter().all(|(moves, reason)| reason.as_deref() == moves.then_some("wrong_path")), "{reasons:?}");
    assert!(text(&output.stderr).contains("its READs should have been moved: 0 were moved"), "{output:?}");
}

#[test]
fn a_peer_that_does_not_start_is_told_of() {
    use std::os::unix::fs::PermissionsExt;
    let (home, docs) = home_with_share();
    for (name, script) in [("smbd", "echo no luck; exit 1"), ("smbpasswd", "exit 0")] {
        let path = home.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", home.path().display());
    let output = longshore(home.path(), &["bench", "peers", "--dir", &docs]).env("PATH", path).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("samba is not ready: no luck") && said.contains("nobody to compare with"), "{said}");
    if !Path::new("/sys/class/ksmbd-control").exists() {
        assert!(said.contains("ksmbd is not available because the module ksmbd is not loaded"), "{said}");
    }
}

#[test]
fn without_peers_nothing_is_compared_and_nothing_goes_on_running() {
    let (home, docs) = home_with_share();
    let little = [&SHORT[..], &["--blocks", "1", "--bs", "64k", "--rw", "read"]].concat();
    let mut command = longshore(home.path(), &[&["bench", "peers", "--dir", &docs], &little[..]].concat());
    // The kernel says whose children they were: none may be left with this name in its environment.
    let output = command.env("PATH", home.path()).env("BENCH_TEST", &docs).output().unwrap();
    // An installed smbd would be found in the usual places.
    if !Path::new("/usr/sbin/smbd").exists() {
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains("there is nobody to compare with"), "{output:?}");
    }
    assert_eq!(with_environment(&docs), 0);
}

/// A sweep that would go on for hours, with two servers, in the midst of its first run.
fn endless_sweep(home: &Path, docs: &str) -> std::process::Child {
    let sweep = ["bench", "threshold", docs, "--thresholds", "off,4k", "--runtime", "60m", "--size", "1m", "--json"];
    let mut command = longshore(home, &sweep);
    command.env("BENCH_TEST", docs).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while std::fs::read_dir(docs).unwrap().count() == 0 && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(with_environment(docs), 3, "two servers and the sweep");
    child
}

fn interrupt(child: &std::process::Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

/// What the servers of a sweep wrote and did not remove.
fn left_by(pid: u32) -> usize {
    let begin = format!("longshore-bench-{pid}-");
    let all = std::fs::read_dir("/tmp").unwrap().flatten();
    all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&begin)).count()
}

#[test]
fn a_signal_ends_a_sweep_in_order_with_all_its_servers() {
    let (home, docs) = home_with_share();
    let child = endless_sweep(home.path(), &docs);
    let pid = child.id();
    assert_eq!(left_by(pid), 2);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = json(&output);
    let observations = report["observations"].as_array().unwrap();
    assert!(observations.iter().all(|o| o["outcome"]["discarded"]["reason"] == "interrupted"), "{report}");
    assert_eq!((with_environment(&docs), left_by(pid)), (0, 0));
    assert_eq!(std::fs::read_dir(&docs).unwrap().count(), 0);
}

#[test]
fn a_second_signal_ends_it_at_once_and_leaves_no_server_either() {
    let (home, docs) = home_with_share();
    let mut child = endless_sweep(home.path(), &docs);
    while child.try_wait().unwrap().is_none() {
        interrupt(&child);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while with_environment(&docs) > 0 && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!((with_environment(&docs), left_by(child.id())), (0, 0));
}

/// How many processes have this in their environment under the tests' name for it.
fn with_environment(value: &str) -> usize {
    let wanted = format!("BENCH_TEST={value}\0");
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| {
        std::fs::read(entry.path().join("environ"))
            .is_ok_and(|found| found.windows(wanted.len()).any(|part| part == wanted.as_bytes()))
    })
    .count()
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_is() {
    let bed = Bed::new();
    let (url, target) = (bed.url(), format!("a={}", bed.url()));
    let wrongs: [&[&str]; 9] = [
        &["run", "smb://nowhere"],
        &["run", &url, "--bs", "4x"],
        &["run", &url, "--bs", "1m", "--size", "4k"],
        &["run", &url, "--rw", "trim"],
        &["crowd", &url, "--size", "4k"],
        &["compare", "--target", &target],
        &["compare", "--target", &target, "--target", "b"],
        &["compare", "--target", &target, "--target", &target],
        &["report", "/dev/null"],
    ];
    for wrong in wrongs {
        let output = bed.bench(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
    }
    let wrong_password = longshore(bed.home.path(), &["bench", "run", &url]).env("LONGSHORE_PASSWORD", "x").output();
    let wrong_password = wrong_password.unwrap();
    assert_eq!(wrong_password.status.code(), Some(1));
    assert!(text(&wrong_password.stdout).contains("LOGON_FAILURE"), "{wrong_password:?}");
}
