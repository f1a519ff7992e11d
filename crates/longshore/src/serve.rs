//! `longshore serve`: starts the shards, listens, says what is served, and then waits for signals until one ends it.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use transport::{Limits, ListenOptions, Server};

use crate::assembly::Smb;
use crate::cli::ServeArgs;
use crate::config::{Config, LogFormat};
use crate::failure::Failure;
use crate::hints::{Hints, nfs_text};
use crate::listen::{cannot_listen, reachable};
use crate::monitor::{self, Endpoint, Monitor, Source};
use crate::nfs::Nfs;
use crate::plan::{Plan, PlannedShare, RunUser};
use crate::rpcbind::Registered;
use crate::{listen, logging, plan, portmapper, state, status};

/// Serves until a signal ends it.
pub fn serve(arguments: &ServeArgs) -> Result<(), Failure> {
    let config = plan::configuration(arguments)?;
    logging::start(&config.log)?;
    status::raise_file_limit();
    let mut run_user = None;
    let plan = Plan::make(arguments, config, &mut run_user)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_signals)?;
    let _inside = runtime.enter();
    let mut signals = Signals::watch().map_err(no_signals)?;
    let mut running = Running::start(plan, arguments)?;
    running.announce(run_user.as_ref())?;
    runtime.block_on(async {
        running.until_told_to_stop(&mut signals, arguments, &mut run_user).await;
        running.stop(&mut signals).await;
    });
    Ok(())
}

fn no_signals(error: io::Error) -> Failure {
    Failure::system(format!("cannot watch for signals: {error}"))
}

/// What the process reacts to.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    user: Signal,
}

enum Told {
    Stop,
    Reload,
    Count,
}

impl Signals {
    fn watch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            user: signal(SignalKind::user_defined1())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.terminate.recv() => Told::Stop,
            _ = self.hang_up.recv() => Told::Reload,
            _ = self.user.recv() => Told::Count,
        }
    }
}

/// A server that has started.
struct Running {
    transport: Server,
    smb: Smb,
    /// Where NFS is not off.
    nfs: Option<Nfs>,
    /// Who asks how it is.
    monitor: Option<(Arc<Source>, Monitor)>,
    /// With the machine's rpcbind.
    registered: Option<Registered>,
    plan: Plan,
    addresses: Vec<SocketAddr>,
    nfs_addresses: Vec<SocketAddr>,
    /// Standard output was a terminal at the start.
    on_terminal: bool,
}

impl Running {
    fn start(plan: Plan, arguments: &ServeArgs) -> Result<Self, Failure> {
        // Before there are threads that would write for others.
        localfs::heed_limits();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let path = &plan.config.data_path;
        let shards = path.shards.map_or(cores, usize::from);
        let workers = path.workers.map_or(32.max(4 * cores), usize::from);
        let endpoint = Endpoint::open(&plan.config.server.metrics)?;
        let smb = Smb::new(&plan, shards, cores)?;
        let transport = Server::start(shards, workers, limits(&plan.config))
            .map_err(|error| Failure::system(format!("cannot start the server's threads: {error}")))?;
        let options = listen::options(path);
        let addresses = plan.listen.bind(|address| transport.listen(address, &options, smb.factory()))?;
        smb.listens_at(&addresses);
        let mut running = Self {
            transport,
            smb,
            nfs: None,
            monitor: None,
            registered: None,
            plan,
            addresses,
            nfs_addresses: Vec::new(),
            on_terminal: io::stdout().is_terminal(),
        };
        running.start_nfs(shards, cores, arguments.nfs.is_some(), &options)?;
        running.start_monitor(endpoint)?;
        Ok(running)
    }

    /// Tells from now on, to those who ask, how it is.
    fn start_monitor(&mut self, endpoint: Endpoint) -> Result<(), Failure> {
        let shown = |addresses: &[SocketAddr]| addresses.iter().map(ToString::to_string).collect();
        let (smb, nfs) = (shown(&self.addresses), shown(&self.nfs_addresses));
        let listen = monitor::Listen { smb, nfs, metrics: endpoint.address() };
        if let Some(metrics) = &listen.metrics {
            tracing::info!("metrics at {metrics}");
        }
        let source = Source::new(self.transport.observer(), &self.smb, self.nfs.as_ref(), listen);
        source.serves(shown_shares(&self.plan));
        let source = Arc::new(source);
        let directory = self.plan.config.server.state.clone().unwrap_or_else(state::default_directory);
        let monitor = Monitor::start(&source, endpoint, &directory)?;
        self.monitor = Some((source, monitor));
        Ok(())
    }

    /// Listens for NFS too. Where nobody chose the address and another program has it, SMB is served alone.
    fn start_nfs(&mut self, shards: usize, cores: usize, chosen: bool, options: &ListenOptions) -> Result<(), Failure> {
        let config = &self.plan.config;
        if config.server.nfs.is_empty() {
            return Ok(());
        }
        let chosen = chosen || config.line("server", "nfs").is_some() || self.addresses.is_empty();
        let nfs = Nfs::new(&self.plan, &self.smb, shards, cores)?;
        for address in &config.server.nfs {
            match self.transport.listen(*address, options, nfs.factory()) {
                Ok(bound) => self.nfs_addresses.push(bound),
                Err(error) if chosen => return Err(cannot_listen(*address, &error, "--nfs")),
                Err(error) => {
                    tracing::warn!(%error, "NFS is not served: {address} cannot be had; --nfs ADDR:PORT names another")
                }
            }
        }
        let wanted = config.server.portmapper;
        let listen = |address| self.transport.listen(address, options, nfs.factory());
        self.registered = portmapper::start(nfs.server(), &self.nfs_addresses, wanted, listen)?;
        self.nfs = (!self.nfs_addresses.is_empty()).then_some(nfs);
        Ok(())
    }

    /// Says what is served where, how to mount it, and, last, that it is ready.
    fn announce(&self, run_user: Option<&RunUser>) -> Result<(), Failure> {
        self.log_shares();
        if run_user.is_some() || self.plan.shares.iter().any(|share| share.from_command_line) {
            self.show_hints(run_user);
        }
        let names: Vec<_> = self.plan.shares.iter().map(|share| share.settings.name.as_str()).collect();
        let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        let nfs_addresses: Vec<_> = self.nfs_addresses.iter().map(ToString::to_string).collect();
        let (names, addresses, nfs) = (names.join(", "), addresses.join(", "), nfs_addresses.join(", "));
        match (addresses.is_empty(), nfs.is_empty()) {
            (true, _) => self.tell(&format!("serving {names} over NFS 3 and 4, ready on {nfs}")),
            (false, true) => self.tell(&format!("serving {names} over SMB 2/3, ready on {addresses}")),
            (false, false) => {
                self.tell(&format!("serving {names} over NFS 3 and 4 on {nfs}"));
                self.tell(&format!("serving {names} over SMB 2/3, ready on {addresses}"));
            }
        }
        status::ready();
        Ok(())
    }

    fn tell(&self, line: &str) {
        match self.plan.config.log.format {
            LogFormat::Human => status::say(&format!("longshore: {line}")),
            LogFormat::Json => tracing::info!("{line}"),
        }
    }

    fn log_shares(&self) {
        for share in &self.plan.shares {
            let settings = &share.settings;
            tracing::info!(
                path = %settings.path.display(),
                access = access(share),
                identity = self.identity(share),
                "share {}", settings.name
            );
        }
        if self.smb.switches_users() {
            let nobodies: Vec<_> = self.plan.identities.unknown_to_the_system().collect();
            if !nobodies.is_empty() && self.plan.shares.iter().any(|share| share.force.is_none()) {
                tracing::warn!(users = nobodies.join(", "), "the system has no such users: they act as nobody");
            }
        } else if self.plan.shares.iter().any(|share| share.settings.force_user.is_some()) {
            tracing::warn!("this process may not switch users: force_user has no effect");
        }
        tracing::info!(count = self.plan.users.users().count(), from = %self.plan.users_from, "users");
    }

    fn identity(&self, share: &PlannedShare) -> String {
        match &share.force {
            _ if !self.smb.switches_users() => "the user the server runs as".into(),
            Some(identity) => format!("uid {}", identity.uid),
            None => "the user logged in".into(),
        }
    }

    fn show_hints(&self, run_user: Option<&RunUser>) {
        let shares: Vec<_> = self.plan.shares.iter().map(|share| share.settings.name.as_str()).collect();
        if let (Some(address), Some(share)) = (self.nfs_addresses.first(), shares.first()) {
            status::say(&nfs_text(reachable(*address), address.port(), share));
        }
        let Some(address) = self.addresses.first() else { return };
        let first = self.plan.users.users().next().map(|user| user.name.as_str());
        let user = run_user.map(|user| user.name.as_str()).or(first).unwrap_or_default();
        let password = run_user.filter(|user| user.made_up).map(|user| user.password.as_str());
        let hints = Hints { host: reachable(*address), port: address.port(), shares: &shares, user, password };
        status::say(&hints.text());
    }

    async fn until_told_to_stop(
        &mut self,
        signals: &mut Signals,
        arguments: &ServeArgs,
        run_user: &mut Option<RunUser>,
    ) {
        loop {
            match signals.next().await {
                Told::Stop => return,
                Told::Count => self.log_counts(),
                // The terminal it was started from has been closed.
                Told::Reload if self.on_terminal && !io::stdout().is_terminal() => return,
                Told::Reload => {
                    status::reloading();
                    if let Err(failure) = self.reload(arguments, run_user) {
                        failure.lines().for_each(|line| tracing::error!("not reloaded: {line}"));
                    }
                    status::ready();
                }
            }
        }
    }

    /// Takes up the configuration and the users as they are now; on a mistake, everything stays as it was.
    fn reload(&mut self, arguments: &ServeArgs, run_user: &mut Option<RunUser>) -> Result<(), Failure> {
        let plan = Plan::make(arguments, plan::configuration(arguments)?, run_user)?;
        self.smb.reload(&plan)?;
        if let Some(nfs) = &mut self.nfs {
            nfs.reload(&plan, &self.smb)?;
        }
        let (old, new) = (&self.plan.config, &plan.config);
        if self.plan.listen != plan.listen
            || old.server.nfs != new.server.nfs
            || old.server.portmapper != new.server.portmapper
            || old.server.metrics != new.server.metrics
            || old.log != new.log
            || old.data_path != new.data_path
        {
            tracing::warn!("changes to listeners, logs and the data path take effect when the server is started again");
        }
        if fixed_limits(old) != fixed_limits(new) {
            tracing::warn!("changes to the limits of connections take effect when the server is started again");
        }
        if let Some((source, _)) = &self.monitor {
            source.serves(shown_shares(&plan));
        }
        self.plan = plan;
        self.log_shares();
        tracing::info!("reloaded; connections stay, tree connects made from now on see the new shares");
        Ok(())
    }

    fn log_counts(&self) {
        let (transport, smb) = (self.transport.totals(), self.smb.totals());
        let nfs = self.nfs.as_ref().map(Nfs::totals).unwrap_or_default();
        let all = transport.entries().chain(smb.entries()).chain(nfs.entries());
        let counts: Vec<_> = all.map(|(k, v)| format!("{k}={v}")).collect();
        let (connections, sessions, opens) = (self.transport.open_connections(), self.smb.sessions(), self.smb.opens());
        tracing::info!(connections, sessions, opens, counts = counts.join(" "), "counters");
    }

    /// Lets requests in flight finish. A second signal ends the process as it is.
    async fn stop(mut self, signals: &mut Signals) {
        status::stopping();
        drop(self.registered.take());
        self.log_counts();
        let grace = Duration::from_secs(self.plan.config.limits.stop_seconds);
        tracing::info!(connections = self.transport.open_connections(), "stopping; a second signal stops at once");
        let (done, stopped) = oneshot::channel();
        let transport = self.transport;
        std::thread::spawn(move || {
            transport.stop(grace);
            let _ = done.send(());
        });
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                _ = &mut stopped => return tracing::info!("stopped"),
                told = signals.next() => if matches!(told, Told::Stop) {
                    tracing::warn!("stopped at once");
                    std::process::exit(i32::from(FORCED));
                },
            }
        }
    }
}

/// The exit code of a server that was not given the time to end cleanly.
const FORCED: u8 = 1;

fn access(share: &PlannedShare) -> &'static str {
    let settings = &share.settings;
    let lists = [&settings.users, &settings.read_only_users, &settings.writers];
    match (settings.read_only, lists.iter().all(|list| list.is_empty())) {
        (true, true) => "read-only",
        (true, false) => "read-only, by user",
        (false, true) => "read and write",
        (false, false) => "read and write, by user",
    }
}

fn shown_shares(plan: &Plan) -> Vec<monitor::Share> {
    let shown = |share: &PlannedShare| monitor::Share {
        name: share.settings.name.clone(),
        path: share.settings.path.display().to_string(),
        access: access(share).into(),
    };
    plan.shares.iter().map(shown).collect()
}

fn limits(config: &Config) -> Limits {
    let limits = &config.limits;
    Limits {
        connections: limits.connections,
        connections_per_peer: limits.connections_per_address,
        handshake: Duration::from_secs(limits.handshake_seconds),
        queued_reply_bytes: limits.queued_reply_bytes,
        used_bytes_per_shard: limits.buffers_in_use_bytes,
        pool_bytes_per_shard: limits.buffer_pool_bytes,
    }
}

/// The limits that a reload cannot change.
fn fixed_limits(config: &Config) -> impl PartialEq {
    limits(config)
}
