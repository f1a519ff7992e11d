//! Writes a file of a server to standard output: `LONGSHORE_PASSWORD=... cat smb://user@host/share/path`.

use std::io::Write;

use client::{Client, Credentials, Url};

type AnyError = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), AnyError> {
    let url: Url = std::env::args().nth(1).ok_or("usage: cat smb://user@host/share/path")?.parse()?;
    let password = std::env::var("LONGSHORE_PASSWORD")?;
    let client = Client::connect(&url, Credentials::password(url.user(), &password)).await?;
    let mut stream = client.open(url.path()).await?.read_stream(0..u64::MAX);
    while let Some(chunk) = stream.next().await? {
        std::io::stdout().write_all(&chunk)?;
    }
    drop(stream);
    client.disconnect().await?;
    Ok(())
}
