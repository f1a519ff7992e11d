//! The circumstances of a comparison that its reader should know: the machine, its kernel and settings, and this program.
//! Read from the system; what cannot be read is left out.

use std::fs;

/// Names and values for the report.
pub fn of_this_machine() -> Vec<(String, String)> {
    let cores = std::thread::available_parallelism().map(|n| n.to_string()).ok();
    let all = [
        ("longshore", Some(env!("CARGO_PKG_VERSION").to_owned())),
        ("build", Some(build().to_owned())),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("processor", processor()),
        ("cores", cores),
        ("memory", memory()),
        ("congestion control", congestion_control()),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The congestion control that sockets have unless a program chooses.
pub fn congestion_control() -> Option<String> {
    read("/proc/sys/net/ipv4/tcp_congestion_control")
}

/// A build for debugging measures itself.
pub fn build() -> &'static str {
    if cfg!(debug_assertions) { "for debugging: its figures are not the program's" } else { "for release" }
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}

fn processor() -> Option<String> {
    let all = read("/proc/cpuinfo")?;
    let line = all.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory() -> Option<String> {
    let all = read("/proc/meminfo")?;
    let kib: u64 = all.lines().find(|line| line.starts_with("MemTotal"))?.split_whitespace().nth(1)?.parse().ok()?;
    Some(format!("{:.1} GiB", kib as f64 / f64::from(1 << 20)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_machine_has_a_kernel_and_memory() {
        let facts = super::of_this_machine();
        for name in ["kernel", "memory", "cores", "build"] {
            assert!(facts.iter().any(|(known, value)| known == name && !value.is_empty()), "{name}");
        }
    }
}
