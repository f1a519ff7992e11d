//! What is to be served: the configuration file and the command line together, with every directory, user and group
//! looked up. `serve` makes a plan at start-up and on reload, `check` makes one to say what is wrong; neither changes
//! anything on the system.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth::krb5::Keytab;
use auth::{Identity, NtHash, UserDb, UserDbError};
use zeroize::Zeroizing;

use crate::cli::{CheckArgs, ServeArgs};
use crate::config::{Config, Listener, Share, is_share_name, parse_listener, parse_metrics};
use crate::failure::Failure;
use crate::identities::{self, Identities};
use crate::listen::{self, Listen};
use crate::{keytab, monitor, password, status, user_command};

/// The name of the user made for a run that has none.
const RUN_USER: &str = "longshore";

/// Everything a server needs to know.
pub struct Plan {
    /// The settings, the command line's over the file's.
    pub config: Config,
    /// Where to listen.
    pub listen: Listen,
    /// What to serve.
    pub shares: Vec<PlannedShare>,
    /// Who may log in.
    pub users: Arc<UserDb>,
    /// Where they come from, for the log.
    pub users_from: String,
    /// As whom they act.
    pub identities: Arc<Identities>,
    /// The server's Kerberos keys.
    pub keytab: Option<Arc<Keytab>>,
}

/// A share whose directory is there and whose users are known.
#[derive(Debug, Clone)]
pub struct PlannedShare {
    /// Its settings; the path is absolute, and the lists of users hold no groups.
    pub settings: Share,
    /// Everything is done as this identity.
    pub force: Option<Identity>,
    /// Named on the command line.
    pub from_command_line: bool,
}

/// A user of this run only.
pub struct RunUser {
    /// The name.
    pub name: String,
    /// The password, kept for reloads.
    pub password: Zeroizing<String>,
    /// Made because there was nobody, not asked for.
    pub made_up: bool,
}

/// The settings: the file's, if one is named, with the command line's over them.
pub fn configuration(arguments: &ServeArgs) -> Result<Config, Failure> {
    let mut config = match &arguments.config {
        Some(path) => read_file(path)?,
        None => Config::default(),
    };
    if let Some(text) = &arguments.smb {
        config.server.smb = match parse_listener(text).map_err(|what| Failure::usage(format!("--smb: {what}")))? {
            Listener::Off => Vec::new(),
            Listener::At(address) => vec![address],
        };
    }
    if let Some(text) = &arguments.nfs {
        config.server.nfs = match parse_listener(text).map_err(|what| Failure::usage(format!("--nfs: {what}")))? {
            Listener::Off => Vec::new(),
            Listener::At(address) => vec![address],
        };
    }
    if let Some(text) = &arguments.metrics {
        let here = std::env::current_dir().unwrap_or_default();
        let metrics = parse_metrics(text, &here);
        config.server.metrics = metrics.map_err(|what| Failure::usage(format!("--metrics: {what}")))?;
    }
    config.server.metrics_public |= arguments.metrics_public;
    config.log.format = arguments.log_format.unwrap_or(config.log.format);
    config.log.level = arguments.log_level.clone().unwrap_or(config.log.level);
    config.data_path.shards = arguments.shards.or(config.data_path.shards);
    config.data_path.workers = arguments.workers.or(config.data_path.workers);
    config.server.state = arguments.state.clone().or(config.server.state);
    config.server.users = arguments.users.clone().or(config.server.users);
    Ok(config)
}

/// The settings of a file.
pub fn read_file(path: &Path) -> Result<Config, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("cannot read the configuration {}: {error}; check --config", path.display()))
    })?;
    let directory = std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_owned));
    Config::parse(&text, &directory.unwrap_or_default()).map_err(|problems| {
        Failure::problems(problems.iter().map(|problem| format!("{}:{problem}", path.display())).collect())
    })
}

impl Plan {
    /// Looks up all that `config` and the command line name. `run_user` is kept from the first plan to the next ones.
    pub fn make(arguments: &ServeArgs, config: Config, run_user: &mut Option<RunUser>) -> Result<Self, Failure> {
        let listen = if arguments.public { Listen::Public } else { Listen::configured(&config) };
        if listen == Listen::At(Vec::new()) && config.server.nfs.is_empty() {
            return Err(Failure::usage("nothing to serve: both SMB and NFS are off"));
        }
        let blame = Blame { file: arguments.config.as_deref(), config: &config };
        let mut problems = Vec::new();
        if let Err(what) = monitor::check(&config.server.metrics, config.server.metrics_public) {
            problems.push(match arguments.metrics {
                Some(_) => format!("--metrics: {what}"),
                None => blame.key("server", "metrics", &what),
            });
        }
        settle_sockets(&blame, &mut problems);
        let mut shares = locate(&blame, &arguments.shares, &mut problems);
        if shares.is_empty() && problems.is_empty() {
            return Err(Failure::usage(
                "nothing to serve: name a directory (longshore serve DIR) or a configuration with shares (--config FILE)",
            ));
        }
        if !problems.is_empty() {
            return Err(Failure::problems(problems));
        }
        if arguments.read_only {
            shares.iter_mut().for_each(|share| share.settings.read_only = true);
        }
        let (users, users_from) = find_users(arguments, &config, run_user)?;
        let identities = Arc::new(Identities::of(Arc::clone(&users)));
        settle_access(&blame, &identities, &mut shares, &mut problems);
        let keytab = keytab::find(&blame, &shares, &mut problems);
        if !problems.is_empty() {
            return Err(Failure::problems(problems));
        }
        if let Some(user) = run_user {
            act_as_owners(user, &identities, &users, &mut shares)?;
        }
        Ok(Self { listen, shares, users, users_from, identities, keytab, config })
    }
}

/// Who is told that something is wrong, and where.
pub struct Blame<'a> {
    /// The configuration file.
    pub file: Option<&'a Path>,
    /// What it says.
    pub config: &'a Config,
}

impl Blame<'_> {
    /// The message about a key.
    pub fn key(&self, section: &str, key: &str, what: &str) -> String {
        match (self.file, self.config.line(section, key)) {
            (Some(file), Some(line)) => format!("{}:{line}: {section}.{key}: {what}", file.display()),
            (Some(file), None) => format!("{}: {section}.{key}: {what}", file.display()),
            (None, _) => format!("{section}.{key}: {what}"),
        }
    }
}

/// What was asked for of sockets and this system does not do is a mistake; a default is done without.
fn settle_sockets(blame: &Blame<'_>, problems: &mut Vec<String>) {
    const SECTION: &str = "data-path";
    match listen::refused_options(&blame.config.data_path) {
        Ok(refused) => {
            let asked = refused.iter().filter(|(key, _)| blame.config.line(SECTION, key).is_some());
            problems.extend(asked.map(|(key, what)| blame.key(SECTION, key, what)));
        }
        Err(error) => tracing::warn!(%error, "cannot find out what sockets can be told"),
    }
}

/// The shares of the file and of the command line, their directories found.
fn locate(blame: &Blame<'_>, arguments: &[String], problems: &mut Vec<String>) -> Vec<PlannedShare> {
    let mut shares: Vec<PlannedShare> = Vec::new();
    for settings in &blame.config.shares {
        match directory(&settings.path) {
            Ok(path) => {
                let settings = Share { path, ..settings.clone() };
                shares.push(PlannedShare { settings, force: None, from_command_line: false });
            }
            Err(what) => problems.push(blame.key(&format!("share.{}", settings.name), "path", &what)),
        }
    }
    for argument in arguments {
        match named(argument) {
            Ok((name, path)) => {
                let taken = shares.iter().find(|s| s.settings.name.to_lowercase() == name.to_lowercase());
                if let Some(other) = taken {
                    problems.push(format!(
                        "two shares are named {name}: {} and {}; give one another name: NAME={argument}",
                        other.settings.path.display(),
                        path.display()
                    ));
                    continue;
                }
                let settings = Share::new(name, path);
                shares.push(PlannedShare { settings, force: None, from_command_line: true });
            }
            Err(what) => problems.push(what),
        }
    }
    shares
}

/// `DIR` or `NAME=DIR`: the share's name and the directory. What stands before a `=` is a name unless it has a slash.
fn named(argument: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = match argument.split_once('=') {
        Some((name, path)) if !name.contains('/') => (Some(name), path),
        _ => (None, argument),
    };
    let found = directory(Path::new(path))?;
    let name = match name {
        Some(name) => name.to_owned(),
        None => {
            let last = found.file_name().and_then(|name| name.to_str());
            last.ok_or_else(|| format!("{path} has no name for a share; give one: NAME={path}"))?.to_owned()
        }
    };
    is_share_name(&name)
        .map_err(|what| format!("`{name}` cannot be a share's name ({what}); give one: NAME={path}"))?;
    Ok((name, found))
}

/// The directory's absolute path, or what is wrong with it.
fn directory(path: &Path) -> Result<PathBuf, String> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("{shown} does not exist; make it (mkdir -p) or correct the path"),
        io::ErrorKind::PermissionDenied => format!("{shown} is out of reach: a directory above it may not be entered"),
        _ => format!("{shown}: {error}"),
    })?;
    if !metadata.is_dir() {
        return Err(format!("{shown} is not a directory; serve the directory it is in"));
    }
    std::fs::canonicalize(path).map_err(|error| format!("{shown}: {error}"))
}

/// Who may log in, and where that is said.
fn find_users(
    arguments: &ServeArgs,
    config: &Config,
    run_user: &mut Option<RunUser>,
) -> Result<(Arc<UserDb>, String), Failure> {
    if let (Some(name), None) = (&arguments.user, &run_user) {
        let password = password::obtain(name, arguments.password_file.as_deref())?;
        *run_user = Some(RunUser { name: name.clone(), password, made_up: false });
    }
    let path = config.server.users.clone().unwrap_or_else(user_command::default_path);
    let mut users = match run_user {
        Some(RunUser { made_up: false, .. }) => UserDb::default(),
        _ => load_users(&path, config.server.users.is_some())?,
    };
    let from_file = users.users().next().is_some();
    if !from_file && run_user.is_none() {
        *run_user = Some(make_up(&path)?);
    }
    if let Some(user) = run_user {
        match users.add(&user.name, None, NtHash::of_password(&user.password)) {
            // Somebody of that name has been added to the database since: that is who is meant now.
            Ok(()) | Err(UserDbError::Exists(_)) => {}
            Err(error) => return Err(Failure::usage(format!("--user {}: {error}", user.name))),
        }
    }
    let from = if from_file { path.display().to_string() } else { "the command line".into() };
    Ok((Arc::new(users), from))
}

fn load_users(path: &Path, must_exist: bool) -> Result<UserDb, Failure> {
    match UserDb::load(path) {
        Err(UserDbError::Io { source, .. }) if !must_exist && source.kind() == io::ErrorKind::NotFound => {
            Ok(UserDb::default())
        }
        other => other.map_err(|error| user_command::explain(path, &error)),
    }
}

fn make_up(path: &Path) -> Result<RunUser, Failure> {
    if status::prints_to_the_journal() {
        // The password would be kept where many can read it.
        return Err(Failure::usage(format!(
            "nobody may log in: {} has no user; add one with `longshore user add NAME`",
            path.display()
        )));
    }
    Ok(RunUser { name: RUN_USER.into(), password: password::random()?, made_up: true })
}

/// Replaces groups by their members and finds the identities that are forced.
fn settle_access(blame: &Blame<'_>, identities: &Identities, shares: &mut [PlannedShare], problems: &mut Vec<String>) {
    for share in shares {
        let settings = &mut share.settings;
        let section = format!("share.{}", settings.name);
        for (key, list) in [
            ("users", &mut settings.users),
            ("read_only_users", &mut settings.read_only_users),
            ("writers", &mut settings.writers),
        ] {
            match identities.without_groups(list) {
                Ok(users) => *list = users,
                Err(what) => problems.push(blame.key(&section, key, &what)),
            }
        }
        match identities::forced(settings.force_user.as_deref(), settings.force_group.as_deref()) {
            Ok(identity) => share.force = identity,
            Err(what) => {
                let key = if settings.force_user.is_some() { "force_user" } else { "force_group" };
                problems.push(blame.key(&section, key, &what));
            }
        }
    }
}

/// Where nobody but the run's user can log in, and the system has no such user, the directories named on the command line
/// are served as whoever owns each.
fn act_as_owners(
    user: &RunUser,
    identities: &Identities,
    users: &UserDb,
    shares: &mut [PlannedShare],
) -> Result<(), Failure> {
    let is_alone = users.users().count() == 1;
    let is_unknown = user.made_up || identities.unknown_to_the_system().any(|name| name == user.name);
    if !is_alone || !is_unknown {
        return Ok(());
    }
    for share in shares.iter_mut().filter(|share| share.from_command_line) {
        let path = &share.settings.path;
        let owner = std::fs::metadata(path).and_then(|m| identities::owner(m.uid(), m.gid()));
        share.force = Some(
            owner.map_err(|error| Failure::system(format!("cannot find the owner of {}: {error}", path.display())))?,
        );
    }
    Ok(())
}

/// `longshore check`: all that is wrong with a configuration, on this machine.
pub fn check(arguments: &CheckArgs) -> Result<(), Failure> {
    let file = &arguments.config;
    let config = read_file(file)?;
    let blame = Blame { file: Some(file), config: &config };
    let mut problems = Vec::new();
    settle_sockets(&blame, &mut problems);
    let mut shares = locate(&blame, &[], &mut problems);
    let path = config.server.users.clone().unwrap_or_else(user_command::default_path);
    let users = load_users(&path, config.server.users.is_some()).unwrap_or_else(|failure| {
        problems.extend(failure.lines().map(|line| blame.key("server", "users", line)));
        UserDb::default()
    });
    let identities = Identities::of(Arc::new(users));
    settle_access(&blame, &identities, &mut shares, &mut problems);
    keytab::find(&blame, &shares, &mut problems);
    if !problems.is_empty() {
        return Err(Failure::problems(problems));
    }
    let names: Vec<_> = shares.iter().map(|share| share.settings.name.as_str()).collect();
    let served = if names.is_empty() { "no share".into() } else { names.join(", ") };
    status::say(&format!("{}: nothing wrong; it serves {served}", file.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(shares: &[&Path]) -> ServeArgs {
        ServeArgs { shares: shares.iter().map(|s| s.display().to_string()).collect(), ..ServeArgs::default() }
    }

    fn anna() -> Option<RunUser> {
        Some(RunUser { name: "no-such-user-here".into(), password: "x".to_owned().into(), made_up: false })
    }

    fn plan(arguments: &ServeArgs) -> Result<Plan, Failure> {
        Plan::make(arguments, configuration(arguments)?, &mut anna())
    }

    fn failure(arguments: &ServeArgs) -> String {
        let failure = plan(arguments).err().expect("a mistake");
        assert_eq!(failure.code(), 2);
        failure.lines().collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_share_is_named_after_its_directory_or_as_said() {
        let root = tempfile::tempdir().unwrap();
        let docs = root.path().join("docs");
        std::fs::create_dir(&docs).unwrap();
        let named = |text: String| named(&text).map(|(name, path)| (name, path.ends_with("docs")));
        assert_eq!(named(docs.display().to_string()).unwrap(), ("docs".into(), true));
        assert_eq!(named(format!("other={}", docs.display())).unwrap(), ("other".into(), true));
        std::fs::create_dir(root.path().join("a=b")).unwrap();
        assert!(named(root.path().join("a=b").display().to_string()).unwrap_err().contains("NAME="));
        assert_eq!(named(format!("x={}/a=b", root.path().display())).unwrap().0, "x");
        assert!(named("/".into()).unwrap_err().contains("NAME=/"));
        assert!(named(format!("ipc$={}", docs.display())).is_err());
    }

    #[test]
    fn directories_that_cannot_be_served_are_named() {
        let root = tempfile::tempdir().unwrap();
        assert!(failure(&arguments(&[&root.path().join("none")])).contains("none does not exist"));
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(failure(&arguments(&[&file])).contains("is not a directory"));
        assert!(failure(&arguments(&[])).contains("nothing to serve"));
        let off = ServeArgs { smb: Some("off".into()), nfs: Some("off".into()), ..arguments(&[root.path()]) };
        assert!(failure(&off).contains("both SMB and NFS are off"));
    }

    #[test]
    fn two_shares_of_one_name_are_refused_whatever_the_case() {
        let root = tempfile::tempdir().unwrap();
        let paths = ["a/docs", "b/Docs"].map(|p| root.path().join(p));
        paths.iter().for_each(|p| std::fs::create_dir_all(p).unwrap());
        let said = failure(&arguments(&[&paths[0], &paths[1]]));
        assert!(said.contains("two shares are named Docs") && said.contains("NAME="), "{said}");
    }

    #[test]
    fn a_user_the_system_lacks_acts_as_the_directorys_owner() {
        let root = tempfile::tempdir().unwrap();
        let uid = std::fs::metadata(root.path()).unwrap().uid();
        let named = ServeArgs { shares: vec![format!("x={}", root.path().display())], ..ServeArgs::default() };
        assert_eq!(plan(&named).unwrap().shares[0].force.as_ref().unwrap().uid, uid);
        let root_user = RunUser { name: "root".into(), password: "x".to_owned().into(), made_up: false };
        let made = Plan::make(&named, configuration(&named).unwrap(), &mut Some(root_user)).unwrap();
        assert_eq!(made.shares[0].force, None, "root is root");
    }

    #[test]
    fn kerberos_needs_keys_that_can_be_read() {
        let root = tempfile::tempdir().unwrap();
        let (file, keys) = (root.path().join("c.toml"), root.path().join("keys"));
        let said = |text: &str| {
            std::fs::write(&file, text).unwrap();
            failure(&ServeArgs { config: Some(file.clone()), ..ServeArgs::default() })
        };
        let share = "[share.docs]\npath = \".\"\nnfs_sec = [\"krb5p\", \"sys\"]\n";
        assert!(said(share).contains("c.toml:3: share.docs.nfs_sec: Kerberos needs"));
        let with = format!("[server]\nkeytab = \"keys\"\n{share}");
        assert!(said(&with).contains("c.toml:2: server.keytab: ") && said(&with).contains("does not exist"));
        std::fs::write(&keys, "no keytab").unwrap();
        assert!(said(&with).contains("is no keytab"));
        // Of host/h, with a key for AES.
        let mut entry = b"\0\x02\0\x01R\0\x04host\0\x01h\0\0\0\x01\0\0\0\0\x01\0\x11\0\x10".to_vec();
        entry.extend([7; 16]);
        let bytes = |entry: &[u8]| [&[5, 2][..], &(entry.len() as u32).to_be_bytes(), entry].concat();
        std::fs::write(&keys, bytes(&entry)).unwrap();
        assert!(said(&with).contains("no AES key of a principal nfs/HOST"));
        let nfs: Vec<u8> = b"\0\x02\0\x01R\0\x03nfs".iter().chain(&entry[11..]).copied().collect();
        std::fs::write(&keys, bytes(&nfs)).unwrap();
        let arguments = ServeArgs { config: Some(file.clone()), ..ServeArgs::default() };
        assert!(plan(&arguments).unwrap().keytab.is_some());
    }

    #[test]
    fn what_sockets_cannot_be_told_is_a_mistake_where_it_was_asked_for() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("c.toml");
        std::fs::write(&file, "[data-path]\ncongestion_control = \"nonesuch\"\n[share.a]\npath = \".\"\n").unwrap();
        let said = failure(&ServeArgs { config: Some(file.clone()), ..ServeArgs::default() });
        assert!(said.contains("c.toml:2: data-path.congestion_control: the kernel has no congestion"), "{said}");
        assert!(check(&CheckArgs { config: file.clone() }).is_err());
        let mut config = Config::default();
        config.data_path.congestion_control = Some("nonesuch".into());
        let mut problems = Vec::new();
        settle_sockets(&Blame { file: None, config: &config }, &mut problems);
        assert!(problems.is_empty(), "a default is done without: {problems:?}");
    }

    #[test]
    fn mistakes_in_a_file_carry_its_lines() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("c.toml");
        let text = "[share.docs]\ncomment = \"x\"\npath = \"none\"\n[share.ok]\npath = \".\"\nforce_user = \"no-such-user-here\"\n";
        std::fs::write(&file, text).unwrap();
        let said = failure(&ServeArgs { config: Some(file.clone()), ..ServeArgs::default() });
        assert!(said.contains("c.toml:3: share.docs.path: "), "{said}");
        std::fs::write(&file, text.replace("none", ".")).unwrap();
        let said = failure(&ServeArgs { config: Some(file.clone()), ..ServeArgs::default() });
        assert!(said.contains("c.toml:6: share.ok.force_user: the system has no user"), "{said}");
    }
}
