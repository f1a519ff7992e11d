//! CPU time: of the threads that make the load, and of a server on this machine, found by the port it listens on. The
//! kernel's CPU clocks count nanoseconds and keep what threads that have ended used. Read only; a server that cannot be
//! found has no CPU time in the report, which is not an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

/// `st` of /proc/net/tcp for a socket that listens.
const LISTENS: &str = "0A";
/// The unit of times in /proc/PID/stat (USER_HZ, 100 everywhere).
const TICK_NS: u64 = 10_000_000;
/// The threads of the kernel's NFS server do all its work. Their sockets have no process; the kernel says which ports are
/// theirs. ksmbd's work is done by threads that the whole kernel shares: its time cannot be told from others'.
const KNFSD: &str = "nfsd";
const KNFSD_PORTS: &str = "/proc/fs/nfsd/portlist";

/// The CPU time of the calling thread in nanoseconds.
pub fn of_this_thread() -> u64 {
    ClockId::CLOCK_THREAD_CPUTIME_ID.now().map(nanoseconds).unwrap_or(0)
}

/// A server on this machine: its first process, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalServer {
    roots: Vec<i32>,
    name: String,
}

impl LocalServer {
    /// The process of this number with all it has started.
    pub fn of_pid(pid: i32) -> Option<Self> {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned();
        Some(Self { roots: vec![pid], name })
    }

    /// Who listens on a port of this machine.
    pub fn listening_on(host: IpAddr, port: u16) -> Option<Self> {
        let sockets = listening_sockets(host, port);
        if sockets.is_empty() {
            return None;
        }
        match first_holder(&sockets) {
            Some(pid) => Self::of_pid(pid),
            None => Self::of_the_kernel(port),
        }
    }

    fn of_the_kernel(port: u16) -> Option<Self> {
        let ports = fs::read_to_string(KNFSD_PORTS).unwrap_or_default();
        let all = processes();
        let roots: Vec<i32> = all.iter().filter(|(_, p)| p.name == KNFSD).map(|(pid, _)| *pid).collect();
        let is_its = has_port(&ports, port) && !roots.is_empty();
        is_its.then(|| Self { roots, name: format!("{KNFSD} (kernel)") })
    }

    /// The program's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its first process.
    pub fn pid(&self) -> Option<i32> {
        self.roots.first().copied()
    }

    /// What its processes have used so far. None when it is gone.
    pub fn used(&self) -> Option<Used> {
        let all = processes();
        let family = family(&all, &self.roots);
        let living: BTreeMap<i32, u64> = family.iter().filter_map(|pid| Some((*pid, cpu_of(*pid)?))).collect();
        let ended = family.iter().filter_map(|pid| all.get(pid)).map(|p| p.ended_children_ns).sum();
        (!living.is_empty()).then_some(Used { living, ended })
    }
}

/// CPU time of a server's processes at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// Of each that lives, in nanoseconds.
    living: BTreeMap<i32, u64>,
    /// Of those that have ended and whose parent lives: all they ever used, in ticks' precision.
    ended: u64,
}

impl Used {
    /// Nanoseconds used since `before`. A process that has ended meanwhile was often there long before: what it used by
    /// then is taken off, and what is left counts where it is more than the ticks' rounding.
    pub fn since(&self, before: &Self) -> u64 {
        let of = |(pid, ns): (&i32, &u64)| ns.saturating_sub(before.living.get(pid).copied().unwrap_or(0));
        let gone: Vec<u64> =
            before.living.iter().filter(|(pid, _)| !self.living.contains_key(pid)).map(|(_, ns)| *ns).collect();
        let rounding = 2 * TICK_NS * gone.len() as u64;
        let ended = self.ended.saturating_sub(before.ended).saturating_sub(gone.iter().sum::<u64>() + rounding);
        self.living.iter().map(of).sum::<u64>() + ended
    }
}

/// A process and all its descendants.
pub fn family_of(pid: i32) -> BTreeSet<i32> {
    family(&processes(), &[pid])
}

/// The group a process is in; none when it is gone.
pub fn group_of(pid: i32) -> Option<i32> {
    process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?).map(|process| process.group)
}

/// Whether there is a process or a thread of the kernel's with this name.
pub fn somebody_is(name: &str) -> bool {
    processes().values().any(|process| process.name == name)
}

/// Whether a list of transports (`tcp 2049`, one a line) has a port of TCP's.
fn has_port(list: &str, port: u16) -> bool {
    let of = |line: &str| line.strip_prefix("tcp ")?.trim().parse().ok();
    list.lines().any(|line| of(line) == Some(port))
}

fn cpu_of(pid: i32) -> Option<u64> {
    Some(nanoseconds(clock_getcpuclockid(Pid::from_raw(pid)).ok()?.now().ok()?))
}

fn nanoseconds(time: nix::sys::time::TimeSpec) -> u64 {
    u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or(0)
}

#[derive(Debug)]
struct Process {
    parent: i32,
    group: i32,
    name: String,
    ended_children_ns: u64,
}

fn processes() -> BTreeMap<i32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect()
}

/// From a line of /proc/PID/stat (proc_pid_stat(5)). The name stands in parentheses and may hold any.
fn process(stat: &str) -> Option<Process> {
    let (before, after) = stat.rsplit_once(") ")?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let ended_children_ns = (number(13)? + number(14)?) * TICK_NS;
    let id = |at: usize| fields.get(at)?.parse::<i32>().ok();
    Some(Process { parent: id(1)?, group: id(2)?, name, ended_children_ns })
}

/// The roots with all their descendants.
fn family(all: &BTreeMap<i32, Process>, roots: &[i32]) -> BTreeSet<i32> {
    let mut family: BTreeSet<i32> = roots.iter().copied().filter(|pid| all.contains_key(pid)).collect();
    loop {
        let more: Vec<i32> = all
            .iter()
            .filter(|(pid, p)| family.contains(&p.parent) && !family.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            return family;
        }
        family.extend(more);
    }
}

fn listening_sockets(host: IpAddr, port: u16) -> BTreeSet<u64> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines()).filter_map(|line| listener(line, host, port)).collect()
}

/// The inode of a line of /proc/net/tcp, where that is a socket that listens on the port of this address or of all.
fn listener(line: &str, host: IpAddr, port: u16) -> Option<u64> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, local_port) = fields.get(1)?.split_once(':')?;
    let listens = *fields.get(3)? == LISTENS && u16::from_str_radix(local_port, 16).ok()? == port;
    let address = address_of(address)?;
    (listens && (address.is_unspecified() || address == host)).then(|| fields.get(9)?.parse().ok()).flatten()
}

/// An address as the kernel prints it: words of 32 bits in the machine's order.
fn address_of(hex: &str) -> Option<IpAddr> {
    let words = (0..hex.len() / 8).map(|n| u32::from_str_radix(hex.get(n * 8..n * 8 + 8)?, 16).ok());
    let bytes: Vec<u8> = words.collect::<Option<Vec<u32>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect();
    match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()),
        _ => None,
    }
}

/// The first process that has one of these sockets open: the one that the others, which inherited it, came from.
fn first_holder(sockets: &BTreeSet<u64>) -> Option<i32> {
    let all = processes();
    let holders: BTreeSet<i32> = all.keys().copied().filter(|pid| holds(*pid, sockets)).collect();
    let inherited = |pid: &i32| all.get(pid).is_some_and(|p| holders.contains(&p.parent));
    holders.iter().copied().find(|pid| !inherited(pid))
}

fn holds(pid: i32, sockets: &BTreeSet<u64>) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.filter_map(|link| inode_of(&link)).any(|inode| sockets.contains(&inode))
}

fn inode_of(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};

    use super::*;

    #[test]
    fn who_listens_is_found_and_its_time_grows() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = LocalServer::listening_on(Ipv4Addr::LOCALHOST.into(), port).unwrap();
        assert_eq!(server.pid(), Some(std::process::id() as i32));
        let before = (server.used().unwrap(), of_this_thread());
        let mut sum = 0u64;
        while of_this_thread() < before.1 + 5_000_000 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        assert!(server.used().unwrap().since(&before.0) >= 5_000_000);
        assert!(LocalServer::listening_on(Ipv6Addr::LOCALHOST.into(), port).is_none(), "another address");
        drop(listener);
        assert!(LocalServer::listening_on(Ipv4Addr::LOCALHOST.into(), port).is_none());
    }

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let line =
            "   0: 0100007F:1171 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0";
        let (here, everywhere) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from([10, 0, 0, 1]));
        assert_eq!(listener(line, here, 0x1171), Some(4_242));
        assert_eq!(listener(line, here, 0x1172), None);
        assert_eq!(listener(line, everywhere, 0x1171), None);
        assert_eq!(listener(&line.replace("0100007F", "00000000"), everywhere, 0x1171), Some(4_242));
        assert_eq!(listener(&line.replace(" 0A ", " 01 "), here, 0x1171), None);
        assert_eq!(address_of("00000000000000000000000001000000"), Some(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(address_of("0000000000000000FFFF00000100007F"), Some(here));
        assert_eq!(address_of("01"), None);
    }

    #[test]
    fn the_kernel_says_which_ports_are_its_nfs_servers() {
        let list = "rdma 20049\ntcp 12049\nudp 2049\n";
        assert!(has_port(list, 12_049) && !has_port(list, 2_049) && !has_port(list, 20_049) && !has_port("", 0));
        assert!(!somebody_is("no such program") && LocalServer::of_the_kernel(1).is_none());
    }

    #[test]
    fn a_process_line_is_read_whatever_the_name() {
        let line = "7 (a) b (c) S 3 7 7 0 -1 0 0 0 0 0 5 6 20 30 20 0 1 0 99";
        let process = process(line).unwrap();
        assert_eq!((process.parent, process.group, process.name.as_str()), (3, 7, "a) b (c"));
        assert_eq!(process.ended_children_ns, 500_000_000);
        assert!(super::process("nonsense").is_none());
    }

    #[test]
    fn what_ended_meanwhile_counts_for_what_it_used_meanwhile() {
        let used = |living: &[(i32, u64)], ended| Used { living: living.iter().copied().collect(), ended };
        let before = used(&[(1, 100), (2, 900_000_000)], 0);
        assert_eq!(used(&[(1, 150), (2, 900_000_007)], 0).since(&before), 57);
        assert_eq!(used(&[(1, 150), (3, 40)], 900_000_000).since(&before), 90, "an old connection ended");
        assert_eq!(used(&[(1, 150)], 0).since(&before), 50, "its parent has not looked yet");
        assert_eq!(used(&[(1, 100)], 1_000_000_000).since(&before), 80_000_000, "it used more before it ended");
    }

    #[test]
    fn a_family_is_all_that_came_of_a_process() {
        let of = |parent| Process { parent, group: 0, name: String::new(), ended_children_ns: 0 };
        let all = BTreeMap::from([(1, of(0)), (2, of(1)), (3, of(2)), (4, of(9)), (5, of(3))]);
        assert_eq!(family(&all, &[2]), BTreeSet::from([2, 3, 5]));
        assert!(family(&all, &[77]).is_empty());
    }
}
