//! `longshore cat`: files of a server, or parts of them, to standard output. Nothing is written between them.

use super::args::CatArgs;
use super::connect::Place;
use super::on_servers;
use super::report::{Output, Piece, Report};
use crate::failure::Failure;

/// Does what the command line says.
pub fn cat(args: &CatArgs) -> Result<(), Failure> {
    let report = Report::new("cat");
    let (start, end) = (args.offset, args.count.map_or(u64::MAX, |count| args.offset.saturating_add(count)));
    on_servers(&args.urls, &args.login, &report, async |places| {
        let output = Output::new();
        for place in &places {
            match write(place, start..end, &output).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => report.refused(&place.remote, &place.path, &error),
            }
        }
        output.finish(&report).await
    })
}

/// Writes one file; `false` when nobody reads any more.
async fn write(place: &Place, range: std::ops::Range<u64>, output: &Output) -> Result<bool, client::Error> {
    if range.is_empty() {
        return Ok(true);
    }
    let mut stream = place.remote.client.open(&place.path).await?.read_stream(range);
    while let Some(chunk) = stream.next().await? {
        if !output.put(Piece::Data(chunk)).await {
            return Ok(false);
        }
    }
    Ok(true)
}
