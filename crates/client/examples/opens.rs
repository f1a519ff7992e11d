//! Opens files again and again in one session and keeps all handles: what each further one costs the server in time, and
//! all of them in memory, which is to be looked at while this waits for a line to read or the end of its input.
//!
//! `LONGSHORE_PASSWORD=... opens smb://user@host/share COUNT FILES`; the files are named 0 to FILES - 1.

use std::time::{Duration, Instant};

use client::{Client, Credentials, Url};

type AnyError = Box<dyn std::error::Error>;

/// Opens timed together.
const BATCH: usize = 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), AnyError> {
    let mut args = std::env::args().skip(1);
    let mut arg = || args.next().ok_or("usage: opens smb://user@host/share COUNT FILES");
    let (url, count, files): (Url, usize, usize) = (arg()?.parse()?, arg()?.parse()?, arg()?.parse()?);
    let password = std::env::var("LONGSHORE_PASSWORD")?;
    let client = Client::connect(&url, Credentials::password(url.user(), &password)).await?;
    let (mut held, mut times) = (Vec::with_capacity(count), Vec::new());
    while held.len() < count {
        let began = Instant::now();
        for _ in 0..BATCH.min(count - held.len()) {
            held.push(client.open((held.len() % files).to_string()).await?);
        }
        times.push(began.elapsed());
    }
    let (first, last) = (median_ms(times.iter().take(10)), median_ms(times.iter().rev().take(10)));
    let most = times.iter().enumerate().max_by_key(|(_, time)| *time);
    let (at, most) = most.map_or((0, 0), |(index, time)| (index * BATCH, time.as_millis()));
    println!("opens={count} first_ms={first} last_ms={last} most_ms={most} most_at={at}");
    std::io::stdin().read_line(&mut String::new())?;
    client.disconnect().await?;
    Ok(())
}

/// What a thousand usually takes: a host that is busy for a moment is not what is measured.
fn median_ms<'a>(times: impl Iterator<Item = &'a Duration>) -> u128 {
    let mut times: Vec<_> = times.collect();
    times.sort();
    times.get(times.len() / 2).map_or(0, |time| time.as_millis())
}
