//! A load through the client library: connections and open files for jobs, and the files themselves, made before and
//! removed after. It speaks to the library's one interface and knows no protocol.

use bytes::Bytes;
use client::{Client, File, OpenHow, Options, Protection};

use super::job::{Io, Load, noise};
use super::place::{Address, Place, file_name};

/// The most one request carries with any server.
const MOST_TRANSFER_BYTES: u32 = 8 << 20;
/// What is asked for where no more is needed.
pub const LEAST_TRANSFER_BYTES: u32 = 1 << 20;
/// What is written at a time when a file is made.
const PIECE_BYTES: usize = 1 << 20;

/// An open file over a connection of its own.
#[derive(Debug)]
pub struct Wire {
    file: File,
    client: Client,
}

impl Io for Wire {
    async fn read(&self, offset_bytes: u64, len_bytes: u32) -> Result<(), String> {
        let mut missing = len_bytes;
        while missing > 0 {
            let at = offset_bytes + u64::from(len_bytes - missing);
            match self.file.read_once(at, missing).await.map_err(|error| error.to_string())? {
                Some(chunk) => missing = missing.saturating_sub(u32::try_from(chunk.len()).unwrap_or(u32::MAX)),
                None => return Err(format!("a READ at {offset_bytes} found {missing} bytes less than {len_bytes}")),
            }
        }
        Ok(())
    }

    async fn write(&self, offset_bytes: u64, data: &Bytes) -> Result<(), String> {
        let (mut at, mut data) = (offset_bytes, data.clone());
        while !data.is_empty() {
            let written = self.file.write_once_shared(at, data.clone()).await;
            let count = written.map_err(|error| error.to_string())?;
            data = data.split_off(count.min(data.len()));
            at += count as u64;
        }
        Ok(())
    }
}

/// Opens the file of the job of this number once for each of its connections.
pub async fn open(place: &Place, load: &Load, number: u32) -> Result<Vec<Wire>, String> {
    let mut files = Vec::new();
    for _ in 0..load.connections {
        let client = connect(place, load.workload.block_bytes).await?;
        files.push(open_on(client, place, load, number).await?);
    }
    Ok(files)
}

/// Opens the file of the job of this number with a client that is there.
pub async fn open_on(client: Client, place: &Place, load: &Load, number: u32) -> Result<Wire, String> {
    let how = if load.workload.writes() { OpenHow::change() } else { OpenHow::read() };
    let file = client.open_with(path(place, number), how).await.map_err(|error| error.to_string())?;
    if file.stat_at_open().len_bytes < load.workload.size_bytes {
        return Err(format!("{} is shorter than {} bytes", file.path().display(), load.workload.size_bytes));
    }
    Ok(Wire { file, client })
}

/// Closes files and ends their connections. What was measured stands, whatever the server says to that.
pub async fn close(files: impl Iterator<Item = Wire>) {
    for Wire { file, client } in files {
        let _ = file.close().await;
        let _ = client.disconnect().await;
    }
}

/// Makes the files of so many jobs, where they are not there with their length. Says what was agreed on with the server.
pub async fn prepare(place: &Place, jobs: u32, size_bytes: u64) -> Result<String, String> {
    let client = connect(place, LEAST_TRANSFER_BYTES).await?;
    for number in 0..jobs {
        prepare_one(&client, place, number, size_bytes).await?;
    }
    let said = description(&client, place);
    client.disconnect().await.map_err(|error| error.to_string())?;
    Ok(said)
}

async fn prepare_one(client: &Client, place: &Place, number: u32, size_bytes: u64) -> Result<(), String> {
    let said = |error: client::Error| error.to_string();
    let path = path(place, number);
    // Another target of the same directory may have made it.
    if client.stat(&path).await.is_ok_and(|stat| stat.len_bytes == size_bytes) {
        return Ok(());
    }
    let file = client.create(&path).await.map_err(said)?;
    let piece = noise(PIECE_BYTES, number.into());
    let mut stream = file.write_stream(0);
    let mut missing = size_bytes;
    while missing > 0 {
        let now = piece.get(..usize::try_from(missing).unwrap_or(PIECE_BYTES).min(PIECE_BYTES)).unwrap_or(&piece);
        stream.write(now).await.map_err(said)?;
        missing -= now.len() as u64;
    }
    stream.finish().await.map_err(said)?;
    // What would be written back later would be written back while something is measured.
    file.sync().await.map_err(said)?;
    file.close().await.map_err(said)
}

/// Removes the files of so many jobs. One that is not there was another target's too.
pub async fn remove(place: &Place, jobs: u32) -> Result<(), String> {
    let client = connect(place, LEAST_TRANSFER_BYTES).await?;
    for number in 0..jobs {
        let _ = client.remove(path(place, number)).await;
    }
    client.disconnect().await.map_err(|error| error.to_string())
}

/// Connects, logs in and enters the share, for requests of so many bytes.
pub async fn connect(place: &Place, block_bytes: u32) -> Result<Client, String> {
    let Address::Server(way) = place.address() else {
        return Err("it is not a server".to_owned());
    };
    let max_transfer_bytes = block_bytes.clamp(LEAST_TRANSFER_BYTES, MOST_TRANSFER_BYTES);
    let options = Options { max_transfer_bytes, ..way.options.clone() };
    Client::connect_with(&way.url, way.credentials.clone(), &options).await.map_err(|error| error.to_string())
}

fn path(place: &Place, number: u32) -> std::path::PathBuf {
    match place.address() {
        Address::Server(way) => way.url.path().join(file_name(number)),
        Address::Bare(_) => file_name(number).into(),
    }
}

fn description(client: &Client, place: &Place) -> String {
    let read_bytes = client.negotiated().map(|smb| format!(", READs up to {} bytes", smb.max_read_bytes));
    let protection = match place.address() {
        Address::Server(way) if way.options.protection == Protection::Sealed => ", encrypted",
        Address::Server(way) if way.options.protection == Protection::Signed => ", signed",
        Address::Server(_) | Address::Bare(_) => "",
    };
    client.description() + &read_bytes.unwrap_or_default() + protection
}
