//! `longshore bench peers`: starts the file servers that are installed on this machine, and ours, on one directory, with
//! settings that are printed and the same congestion control for all, compares them, and stops them. How each is set up is
//! in the rooms; here is who takes part.

use std::any::Any;
use std::path::{Path, PathBuf};

use client::Credentials;
use nfs_wire::rpc::program;

use super::arguments::{PeersArgs, Spoken};
use super::compare;
use super::contest::problem;
use super::facts;
use super::load::Stop;
use super::login::Logins;
use super::ours::Ours;
use super::place::Place;
use super::process::{Daemon, Ports, Root};
use super::signals;
use crate::failure::Failure;
use crate::{rpcbind as registry, status};

mod chimera;
mod ganesha;
mod knfsd;
mod ksmbd;
mod rpcbind;
mod samba;
mod smb_server;

/// The tree and the directory that `conformance/peers/peers` lays out.
const TREE: &str = "sid";
const DIRECTORY: &str = "exp";
const BUILT: &str = "bin";

/// A server that runs and what it can be reached by. It ends when this does.
pub struct Peer {
    /// Targets: name, URL, who logs in.
    pub targets: Vec<(String, String, Credentials)>,
    /// Each setting that was written for it.
    pub settings: Vec<(String, String)>,
    /// Its process; none where that is found by its port, or cannot be told from others'.
    pub pid: Option<i32>,
    /// Processes, what they wrote, and what was changed for them: kept to end with this, in this order.
    pub _running: Vec<Box<dyn Any>>,
}

/// Where the peers' programs are, and the directory that all serve.
pub struct Site {
    /// Where programs are looked for.
    pub root: Root,
    /// The directory as the peers see it.
    pub inside: PathBuf,
    /// The same as this process and our server see it.
    pub outside: PathBuf,
    /// Where the programs are that were built beside those.
    built: Option<PathBuf>,
}

/// Does it.
pub fn compare(arguments: &PeersArgs) -> Result<(), Failure> {
    let stop = signals::watch()?;
    let site = Site::of(arguments)?;
    let mut ports = Ports::from(arguments.first_port);
    let mut all = ours(&site, arguments, &mut ports, &stop)?;
    let Others { peers: others, absent } = others(&site, arguments, &mut ports, &stop);
    let given = compare::named(&arguments.targets)?;
    let first_other = others.iter().flat_map(|peer| &peer.targets).map(|(name, _, _)| name.clone()).next();
    let Some(baseline) = first_other.or_else(|| given.first().map(|target| target.name.clone())) else {
        return Err(Failure::system("there is nobody to compare with: no other server could be started"));
    };
    all.extend(others);
    let mut settings = vec![("directory".to_owned(), site.outside.display().to_string())];
    let congestion = facts::congestion_control().unwrap_or_else(|| "unknown".to_owned());
    settings.push(("congestion control of all".to_owned(), congestion));
    settings.extend(all.iter().flat_map(|peer| peer.settings.iter().cloned()));
    settings.extend(absent);
    for (name, value) in settings.iter().filter(|_| !arguments.out.json) {
        status::say(&format!("{name}: {value}"));
    }
    let logins = Logins::new(&arguments.access.login);
    let mut places = Vec::new();
    for peer in &all {
        for (name, url, credentials) in &peer.targets {
            places.push(Place::of_server(name, logins.known(url, credentials.clone())?, peer.pid)?);
        }
    }
    places.extend(compare::reached(&given, &arguments.access)?);
    let is_on_names = arguments.matrix.rw.iter().any(|rw| rw.0.is_on_names());
    if !arguments.without_limit && !is_on_names {
        places.push(compare::limit(&site.outside)?);
    }
    let mut matrix = arguments.matrix.clone();
    matrix.title = matrix.title.or_else(|| Some(format!("{} servers on this machine", arguments.protocol)));
    matrix.baseline = matrix.baseline.or(Some(baseline));
    compare::run(&matrix, places, &arguments.access, &arguments.out, settings, &stop)
}

impl Site {
    fn of(arguments: &PeersArgs) -> Result<Self, Failure> {
        let found = |path: &Path| {
            std::fs::canonicalize(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
        };
        match (&arguments.peers, &arguments.directory) {
            (Some(peers), None) => Self::of_layout(&found(peers)?),
            (None, Some(directory)) => {
                let directory = found(directory)?;
                Ok(Self { root: Root::here(), inside: directory.clone(), outside: directory, built: None })
            }
            _ => Err(Failure::usage("name either --peers DIR or --dir DIR")),
        }
    }

    /// A program that was built for this system.
    fn find_built(&self, program: &str) -> Option<PathBuf> {
        let built = self.built.iter().map(|directory| directory.join(program)).find(|path| path.is_file());
        built.or_else(|| Root::here().find(program))
    }

    /// A chroot and a directory that is mounted in it.
    fn of_layout(peers: &Path) -> Result<Self, Failure> {
        use std::os::unix::fs::MetadataExt;
        let (tree, outside, inside) = (peers.join(TREE), peers.join(DIRECTORY), Path::new("/").join(DIRECTORY));
        let built = Some(peers.join(BUILT));
        let site = Self { root: Root::of_tree(&tree), inside: inside.clone(), outside: outside.clone(), built };
        let identity = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
        let seen = identity(&site.root.outside(&inside));
        match seen.is_some() && seen == identity(&outside) && tree.join("proc/self").exists() {
            true => Ok(site),
            false => Err(Failure::usage(format!(
                "{} is not mounted in {}; run conformance/peers/peers mounts {}",
                outside.display(),
                tree.display(),
                peers.display()
            ))),
        }
    }
}

/// Our server; with its own congestion control once more, if that was asked for.
fn ours(site: &Site, arguments: &PeersArgs, ports: &mut Ports, stop: &Stop) -> Result<Vec<Peer>, Failure> {
    let mut kinds = vec![("longshore", "congestion_control = \"system\"")];
    if arguments.own_congestion {
        kinds.push(("longshore-own-cc", ""));
    }
    let start = |(name, data_path): (&str, &str)| {
        let is_nfs = arguments.protocol == Spoken::Nfs;
        let ours = Ours::start(name, &site.outside, data_path, is_nfs, ports, stop)?;
        let url = match arguments.protocol {
            Spoken::Smb => Some(ours.smb_url()),
            Spoken::Nfs => ours.nfs_url(&arguments.nfs_version),
        };
        let url = url.ok_or_else(|| Failure::system("our server has no NFS"))?;
        let shown = if data_path.is_empty() { "defaults" } else { data_path };
        Ok(Peer {
            targets: vec![(name.to_owned(), url, ours.credentials().clone())],
            settings: vec![(format!("{name} settings"), format!("[data-path] {shown}"))],
            pid: Some(ours.pid()),
            _running: vec![Box::new(ours)],
        })
    };
    kinds.into_iter().map(start).collect()
}

/// Everybody else.
struct Others {
    peers: Vec<Peer>,
    /// Who is not among them, and why.
    absent: Vec<(String, String)>,
}

/// Starts somebody, when its turn comes.
type Start<'a> = Box<dyn FnOnce(&mut Ports) -> Result<Peer, Failure> + 'a>;

/// Starts them. Who cannot be had is told of, and the others go on without. They end in the order in which they are listed,
/// so who started first is the last: what was started for it is there for the others, too.
fn others(site: &Site, arguments: &PeersArgs, ports: &mut Ports, stop: &Stop) -> Others {
    let mut others = Others { peers: Vec::new(), absent: Vec::new() };
    let is_wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
    for (name, start) in starts(site, arguments, stop).into_iter().filter(|(name, _)| is_wanted(name)) {
        match start(ports) {
            Ok(peer) => others.peers.push(peer),
            Err(failure) => {
                failure.lines().for_each(problem);
                let why = failure.lines().collect::<Vec<_>>().join("; ");
                others.absent.push((format!("without {name}"), why));
            }
        }
    }
    others.peers.reverse();
    others.absent.reverse();
    others
}

/// Who there is, in the order in which they start.
fn starts<'a>(site: &'a Site, arguments: &'a PeersArgs, stop: &'a Stop) -> Vec<(&'static str, Start<'a>)> {
    let (spoken, version, program) = (arguments.protocol, &arguments.nfs_version, arguments.chimera.as_deref());
    let chimera = |way: (&'static str, &'static str)| -> (&'static str, Start<'a>) {
        let chimera = chimera::Chimera { way, program, spoken, version };
        (way.0, Box::new(move |ports| chimera.start(site, ports, stop)))
    };
    let [chimera, uring] = chimera::WAYS.map(chimera);
    match spoken {
        Spoken::Smb => vec![
            uring,
            chimera,
            (smb_server::NAME, Box::new(|ports| smb_server::start(site, ports, stop))),
            (ksmbd::NAME, Box::new(|ports| ksmbd::start(site, ports, stop))),
            (samba::NAME, Box::new(|ports| samba::start(site, ports, stop))),
        ],
        Spoken::Nfs => {
            // Who registers takes the place of whoever is named, and nobody gives it back.
            let named = named_by_rpcbind();
            let alone = move |name| named.map_or(Ok(()), |why| Err(not_available(name, why)));
            let knfsd: Start<'a> =
                Box::new(move |ports| alone(knfsd::NAME).and_then(|()| knfsd::start(site, version, ports, stop)));
            let ganesha: Start<'a> =
                Box::new(move |ports| alone(ganesha::NAME).and_then(|()| ganesha::start(site, version, ports, stop)));
            vec![uring, chimera, (knfsd::NAME, knfsd), (ganesha::NAME, ganesha)]
        }
    }
}

/// Whether this machine's rpcbind names an NFS server, which is somebody else's.
fn named_by_rpcbind() -> Option<&'static str> {
    let mut programs = [program::NFS, program::MOUNT].into_iter().map(registry::names);
    match programs.try_fold(false, |any, named| Ok::<_, std::io::Error>(any | named?)) {
        Ok(false) => None,
        Ok(true) => Some("rpcbind names another NFS server"),
        Err(_) => Some("rpcbind does not say whether it names another NFS server"),
    }
}

/// Why somebody is not started.
fn not_available(name: &str, why: &str) -> Failure {
    Failure::system(format!("{name} is not available because {why}"))
}

/// The lines of a configuration as one setting: what is commented or empty says nothing.
fn in_one_line(config: &str) -> String {
    let lines = config.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.collect::<Vec<_>>().join("; ")
}

/// Shared by rooms: a server that listens.
fn listening(name: &str, command: std::process::Command, port: u16, stop: &Stop) -> Result<Daemon, Failure> {
    let mut daemon = Daemon::start(name, command)?;
    daemon.wait_for(port, stop)?;
    Ok(daemon)
}
