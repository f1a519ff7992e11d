//! Serves a directory with the crate `smb-server` of crates.io, on loopback, as one of the peers that `longshore bench peers`
//! compares with: `peer-smb-server DIR PORT USER`, the password in PEER_PASSWORD. Everything else is the crate's default.

use std::error::Error;

use smb_server::{Access, LocalFsBackend, Share, SmbServer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |name| arguments.next().ok_or(format!("{name} is missing: peer-smb-server DIR PORT USER"));
    let (directory, port, user) = (next("DIR")?, next("PORT")?.parse::<u16>()?, next("USER")?);
    let password = std::env::var("PEER_PASSWORD")?;
    let share = Share::new("bench", LocalFsBackend::new(directory)?).user(&user, Access::ReadWrite);
    let server =
        SmbServer::builder().listen(([127, 0, 0, 1], port).into()).user(&user, &password).share(share).build()?;
    server.bind().await?;
    server.serve().await?;
    Ok(())
}
