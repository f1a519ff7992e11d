//! The rpcbind that NFS servers register with and do not start without: this system's, or one that is started for them where
//! none runs. That one has a network of its own, so that nobody reaches it but through its socket in the file system.

use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use crate::bench::load::Stop;
use crate::bench::process::{Daemon, Root};
use crate::failure::Failure;

const NAME: &str = "rpcbind";
const SOCKET: &str = "/run/rpcbind.sock";
const PORT: u16 = 111;

/// Starts one for servers in `root`, unless one answers them already.
pub fn start(root: &Root, stop: &Stop) -> Result<Option<Daemon>, Failure> {
    if TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).is_ok() || answers(root) {
        return Ok(None);
    }
    let program = root.find(NAME).ok_or_else(|| Failure::system("it needs rpcbind, which is not installed"))?;
    started(apart(root, &program), root, stop).or_else(|_| {
        let mut command = root.command(&program);
        // Debian 12's ends with `-h`; that is why it is the second choice.
        command.args(["-f", "-h", "127.0.0.1"]);
        started(command, root, stop)
    })
}

fn apart(root: &Root, program: &Path) -> Command {
    let inside = root.command(program);
    let mut command = Command::new("unshare");
    command.arg("--net").arg(inside.get_program()).args(inside.get_args()).arg("-f");
    command
}

fn started(command: Command, root: &Root, stop: &Stop) -> Result<Option<Daemon>, Failure> {
    let mut daemon = Daemon::start(NAME, command)?;
    daemon.wait_until(stop, || answers(root).then_some(()))?;
    Ok(Some(daemon))
}

fn answers(root: &Root) -> bool {
    UnixStream::connect(root.outside(Path::new(SOCKET))).is_ok()
}
