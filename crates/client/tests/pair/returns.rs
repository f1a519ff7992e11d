//! Connections that are lost and made again: what was under way goes on, what was open stays open, what may have been done
//! is not done twice, and nobody waits for this client to give up what it does not cache.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use client::{Client, Credentials, Dialect, ErrorKind, Failure, OpenHow, Options, Protection};
use smb_wire::smb2::{Command, Header};

use crate::util::world::{PASSWORD, USER};
use crate::util::{Rng, World};
use crate::wire::{Fate, Port, Way, soon, url};
use crate::{pattern, story};

const DIALECTS: [Dialect; 5] = Dialect::ALL;

pub async fn connect(port: &Port, options: &Options) -> Client {
    let credentials = Credentials::password(USER, PASSWORD);
    soon(Client::connect_smb_by(port.dial(), &url(), credentials, options)).await.unwrap()
}

fn command_of(frame: &[u8]) -> Option<Command> {
    Header::decode(&frame[4..]).ok().and_then(|header| Command::from_u16(header.command))
}

/// Cuts the line at the `n`th frame of `way`, counted from now, once.
fn cut_once(port: &Port, way: Way, n: usize, fate: Fate) -> Rc<Cell<usize>> {
    let seen = Rc::new(Cell::new(0));
    let counted = Rc::clone(&seen);
    port.meddle(move |at, _| {
        if at != way {
            return Fate::Pass;
        }
        counted.set(counted.get() + 1);
        if counted.get() == n { fate } else { Fate::Pass }
    });
    seen
}

fn why(error: &client::Error) -> &Failure {
    match error.kind() {
        ErrorKind::Connection(failure) => failure,
        kind => panic!("{kind:?}"),
    }
}

async fn write_and_read(client: &Client, name: &str, data: &[u8]) {
    let file = soon(client.create(name)).await.unwrap();
    let mut stream = file.write_stream(0);
    let (copied, shared) = data.split_at(data.len() / 2);
    for piece in copied.chunks(50_000) {
        soon(stream.write(piece)).await.unwrap();
    }
    for piece in shared.chunks(150_000) {
        soon(stream.write_shared(Bytes::copy_from_slice(piece))).await.unwrap();
    }
    assert_eq!(soon(stream.finish()).await.unwrap(), data.len() as u64);
    soon(file.close()).await.unwrap();
    let file = soon(client.open(name)).await.unwrap();
    let mut stream = file.read_stream(0..u64::MAX);
    let mut count = 0;
    while let Some(chunk) = soon(stream.next()).await.unwrap() {
        assert!(chunk[..] == data[count..count + chunk.len()], "at {count}");
        count += chunk.len();
    }
    assert_eq!(count, data.len());
    drop(stream);
    soon(file.close()).await.unwrap();
}

#[test]
fn streams_go_on_wherever_the_line_is_cut() {
    for protection in [Protection::AsServer, Protection::Signed, Protection::Sealed] {
        for (way, fate) in
            [(Way::Request, Fate::CutBefore), (Way::Reply, Fate::CutBefore), (Way::Reply, Fate::CutBehind)]
        {
            for n in 1.. {
                let reached = Rc::new(Cell::new(0));
                let told = Rc::clone(&reached);
                story(async move {
                    let port = Port::new(World::new());
                    let options = Options { protection, max_transfer_bytes: 128 << 10, ..Options::default() };
                    let client = connect(&port, &options).await;
                    let seen = cut_once(&port, way, n, fate);
                    let data = pattern(700_003);
                    write_and_read(&client, "file", &data).await;
                    assert!(port.world().content("file").unwrap() == data);
                    told.set(seen.get());
                    // What is cut when all is done need not be made again.
                    assert!(port.lines.get() <= 1 + usize::from(seen.get() >= n), "{way:?} {n}");
                });
                if reached.get() < n {
                    break;
                }
                assert!(n < 100, "it ends");
            }
        }
    }
}

#[test]
fn every_dialect_comes_back_to_its_open_files() {
    for max_dialect in DIALECTS {
        story(async move {
            let port = Port::new(World::new());
            let client = connect(&port, &Options { max_dialect, ..Options::default() }).await;
            let file = client.open_with("file", OpenHow::update()).await.unwrap();
            file.write_at(0, b"before").await.unwrap();
            file.lock(0..2, true, false).await.unwrap();
            for round in 0..3u8 {
                port.cut();
                soon(file.write_at(u64::from(round), &[b'0' + round])).await.unwrap();
                let mut read = [0; 6];
                assert_eq!(soon(file.read_at(0, &mut read)).await.unwrap(), 6, "{max_dialect}");
            }
            assert_eq!(port.lines.get(), 4);
            // The lock is still there.
            let other = port.join_another().await;
            let theirs = other.open_with("file", OpenHow::change()).await.unwrap();
            assert!(theirs.lock(0..1, true, false).await.is_err(), "{max_dialect}");
            file.unlock(0..2).await.unwrap();
            theirs.lock(0..1, true, false).await.unwrap();
            file.close().await.unwrap();
            assert_eq!(port.world().content("file").unwrap(), b"012ore");
        });
    }
}

#[test]
fn nobody_waits_for_who_caches_nothing() {
    for max_dialect in DIALECTS {
        story(async move {
            let port = Port::new(World::new());
            port.world().put("file", b"contents");
            let client = connect(&port, &Options { max_dialect, ..Options::default() }).await;
            let file = client.open_with("file", OpenHow::change()).await.unwrap();
            let other = port.join_another().await;
            let begun = tokio::time::Instant::now();
            let theirs = soon(other.open_with("file", OpenHow::change())).await.unwrap();
            soon(theirs.write_at(0, b"CON")).await.unwrap();
            soon(file.write_at(3, b"TEN")).await.unwrap();
            soon(theirs.close()).await.unwrap();
            soon(other.write_whole("file", b"new", OpenHow::overwrite(), &client::Times::default())).await.unwrap();
            assert!(begun.elapsed() < Duration::from_millis(100), "{max_dialect}: {:?}", begun.elapsed());
            assert_eq!(soon(file.stat()).await.unwrap().len_bytes, 3);
        });
    }
}

#[test]
fn what_may_have_been_done_is_not_done_again() {
    story(async {
        let port = Port::new(World::new());
        port.world().put("from", b"x");
        let client = connect(&port, &Options::default()).await;
        // The server does it, and its answer is lost.
        let cut = |port: &Port| {
            let mut is_done = false;
            port.meddle(move |way, frame| {
                let is_of_the_way = command_of(frame).is_none_or(|c| c as u16 <= Command::TreeConnect as u16);
                if way == Way::Request || is_of_the_way || std::mem::replace(&mut is_done, true) {
                    return Fate::Pass;
                }
                Fate::CutBefore
            });
        };
        cut(&port);
        let error = soon(client.rename("from", "to", false)).await.unwrap_err();
        assert_eq!(why(&error), &Failure::Interrupted, "{error}");
        assert!(!error.is_of_the_connection());
        assert!(port.world().exists("to") && !port.world().exists("from"));
        cut(&port);
        assert_eq!(why(&soon(client.mkdir("dir")).await.unwrap_err()), &Failure::Interrupted);
        cut(&port);
        assert_eq!(why(&soon(client.remove("dir")).await.unwrap_err()), &Failure::Interrupted);
        cut(&port);
        let error = soon(client.open_with("new", OpenHow::new_file())).await.unwrap_err();
        assert_eq!(why(&error), &Failure::Interrupted);
        // What is the same twice is done.
        cut(&port);
        assert_eq!(soon(client.stat("to")).await.unwrap().len_bytes, 1);
        cut(&port);
        assert_eq!(soon(client.read_whole("to", 10)).await.unwrap().1.unwrap(), b"x");
        cut(&port);
        let file = soon(client.open_with("to", OpenHow::update())).await.unwrap();
        cut(&port);
        soon(file.set_len(5)).await.unwrap();
        cut(&port);
        soon(file.close()).await.unwrap();
        cut(&port);
        assert_eq!(soon(client.list("")).await.unwrap().len(), 2);
        soon(client.disconnect()).await.unwrap();
    });
}

#[test]
fn a_line_that_was_lost_while_nobody_asked_is_no_error() {
    story(async {
        let port = Port::new(World::new());
        port.world().put("from", b"x");
        let client = connect(&port, &Options::default()).await;
        for name in ["a", "b", "c"] {
            port.cut();
            tokio::time::sleep(Duration::from_secs(100)).await;
            soon(client.mkdir(name)).await.unwrap();
        }
        assert_eq!(port.lines.get(), 4, "made when there is something to ask");
    });
}

#[test]
fn a_server_that_forgot_gives_a_file_to_read_by_name_and_none_that_changed() {
    story(async {
        let port = Port::new(World::new());
        for name in ["read", "write", "other", "replaced", "locked", "written"] {
            port.world().put(name, b"contents");
        }
        let client = connect(&port, &Options::default()).await;
        let read = client.open("read").await.unwrap();
        let write = client.open_with("write", OpenHow::change()).await.unwrap();
        let other = client.open_with("other", OpenHow::change()).await.unwrap();
        let replaced = client.open("replaced").await.unwrap();
        let locked = client.open("locked").await.unwrap();
        locked.lock(0..1, false, false).await.unwrap();
        let written = client.open_with("written", OpenHow::change()).await.unwrap();
        written.write_at(0, b"C").await.unwrap();
        port.is_down.set(true);
        port.forget();
        {
            let meddler = port.join_another().await;
            meddler.write_at("read", 0, b"CON").await.unwrap();
            meddler.write_at("other", 0, b"longer than before").await.unwrap();
            meddler.remove("replaced").await.unwrap();
            meddler.write_at("replaced", 0, b"another").await.unwrap();
            meddler.disconnect().await.unwrap();
        }
        port.is_down.set(false);
        let mut buf = [0; 8];
        assert_eq!(soon(read.read_at(0, &mut buf)).await.unwrap(), 8);
        assert_eq!(&buf, b"CONtents");
        soon(write.write_at(0, b"W")).await.unwrap();
        assert_eq!(why(&soon(other.write_at(0, b"W")).await.unwrap_err()), &Failure::FileLost);
        assert_eq!(why(&soon(replaced.read_at(0, &mut buf)).await.unwrap_err()), &Failure::FileLost);
        assert_eq!(why(&soon(locked.read_at(0, &mut buf)).await.unwrap_err()), &Failure::FileLost);
        assert_eq!(why(&soon(written.write_at(0, b"W")).await.unwrap_err()), &Failure::FileLost);
        assert_eq!(why(&soon(written.close()).await.unwrap_err()), &Failure::FileLost);
        assert_eq!(port.world().content("other").unwrap(), b"longer than before");
    });
}

#[test]
fn a_persistent_handle_outlives_the_server() {
    story(async {
        let port = Port::new(World::available());
        let client = connect(&port, &Options::default()).await;
        let file = client.create("file").await.unwrap();
        file.lock(0..4, true, false).await.unwrap();
        let mut stream = file.write_stream(0);
        let data = pattern(5_000_000);
        for (i, piece) in data.chunks(1_000_000).enumerate() {
            if i == 2 {
                port.restart();
            }
            soon(stream.write(piece)).await.unwrap();
        }
        soon(stream.finish()).await.unwrap();
        soon(file.unlock(0..4)).await.unwrap();
        soon(file.close()).await.unwrap();
        assert!(port.world().content("file").unwrap() == data);
        // An exclusive CREATE whose answer is lost can be told again.
        cut_once(&port, Way::Reply, 1, Fate::CutBefore);
        soon(soon(client.open_with("new", OpenHow::new_file())).await.unwrap().close()).await.unwrap();
    });
}

#[test]
fn who_cannot_be_reached_is_given_up_and_tried_again_later() {
    story(async {
        let port = Port::new(World::new());
        port.world().put("file", b"contents");
        let options = Options { timeout: Duration::from_secs(5), ..Options::default() };
        let client = connect(&port, &options).await;
        let file = client.open("file").await.unwrap();
        port.is_down.set(true);
        port.cut();
        let begun = tokio::time::Instant::now();
        let error = soon(client.stat("file")).await.unwrap_err();
        assert!(error.is_of_the_connection(), "{error}");
        let took = begun.elapsed();
        assert!((Duration::from_secs(2)..Duration::from_secs(6)).contains(&took), "{took:?}");
        assert!(port.tries.get() > 4 && port.tries.get() < 20, "{} tries", port.tries.get());
        port.is_down.set(false);
        assert_eq!(soon(client.stat("file")).await.unwrap().len_bytes, 8);
        let mut buf = [0; 8];
        assert_eq!(soon(file.read_at(0, &mut buf)).await.unwrap(), 8);
    });
}

#[test]
fn a_request_that_ends_every_connection_is_not_sent_for_ever() {
    story(async {
        let port = Port::new(World::new());
        port.world().put("file", b"contents");
        let client = connect(&port, &Options::default()).await;
        port.meddle(|way, frame| match way {
            Way::Request if command_of(frame) == Some(Command::Read) => Fate::CutBefore,
            _ => Fate::Pass,
        });
        let error = soon(client.read_at("file", 0, &mut [0; 8])).await.unwrap_err();
        assert_eq!(why(&error), &Failure::Closed);
        assert!(port.lines.get() < 10, "{} lines", port.lines.get());
        assert_eq!(soon(client.stat("file")).await.unwrap().len_bytes, 8, "others are not concerned");
    });
}

#[test]
fn cuts_by_chance_change_nothing() {
    for seed in 0..120 {
        story(async move {
            let port = Port::new(World::new());
            let channels = 1 + seed as u16 % 3;
            let protection = [Protection::AsServer, Protection::Signed, Protection::Sealed][seed as usize / 3 % 3];
            let options = Options { channels, protection, max_transfer_bytes: 64 << 10, ..Options::default() };
            let client = connect(&port, &options).await;
            let mut rng = Rng::new(seed);
            // Two cuts in a hundred, also while the line is made again.
            port.meddle(move |_, _| match rng.below(100) {
                0 => Fate::CutBefore,
                1 => Fate::CutBehind,
                _ => Fate::Pass,
            });
            let data = pattern(1_500_003);
            write_and_read(&client, "file", &data).await;
            assert!(port.world().content("file").unwrap() == data, "{seed}");
        });
    }
}

#[test]
fn nonsense_by_chance_ends_everything_in_time() {
    for seed in 0..200 {
        story(async move {
            let port = Port::new(World::new());
            port.world().put("file", &pattern(200_000));
            let mut rng = Rng::new(seed);
            port.meddle(move |way, frame| match (way, rng.below(25)) {
                (_, 0) => Fate::CutBefore,
                (Way::Request, 1) => Fate::Hang,
                (Way::Reply, 2..4) => Fate::Spoil(rng.below(160.min(frame.len())), rng.next() as u8),
                (_, 4) => Fate::Drop,
                _ => Fate::Pass,
            });
            let max_dialect = DIALECTS[seed as usize % 5];
            let options = Options { channels: 1 + seed as u16 % 3, max_dialect, ..Options::default() };
            let credentials = Credentials::password(USER, PASSWORD);
            let client = soon(Client::connect_smb_by(port.dial(), &url(), credentials, &options)).await;
            let Ok(client) = client else { return };
            let _ = soon(client.read_at("file", 0, &mut [0; 200_000])).await;
            let _ = soon(client.list("")).await;
            let _ = soon(client.write_at("new", 0, &pattern(100_000))).await;
            let _ = soon(client.rename("new", "newer", true)).await;
            let _ = soon(client.copy("newer", "newest")).await;
            let _ = soon(client.remove("newer")).await;
            let _ = soon(client.disconnect()).await;
        });
    }
}

#[test]
fn a_line_that_went_silent_is_left_and_its_files_are_not() {
    for max_dialect in DIALECTS {
        story(async move {
            let port = Port::new(World::new());
            let options = Options { max_dialect, timeout: Duration::from_secs(5), ..Options::default() };
            let client = connect(&port, &options).await;
            let file = client.open_with("file", OpenHow::update()).await.unwrap();
            file.write_at(0, b"before").await.unwrap();
            for round in 0..3 {
                // The second time another hangs while it is made.
                cut_once(&port, Way::Request, if round == 1 { 5 } else { 1 }, Fate::Hang);
                if round == 1 {
                    port.cut();
                }
                let begun = tokio::time::Instant::now();
                let answer = soon(file.stat()).await;
                assert!(begun.elapsed() <= Duration::from_secs(11), "{:?}", begun.elapsed());
                if let Err(error) = answer {
                    assert!(matches!(why(&error), Failure::Timeout(_)), "{error}");
                }
                soon(file.write_at(0, b"after")).await.unwrap();
            }
            soon(file.close()).await.unwrap();
            assert_eq!(port.world().content("file").unwrap(), b"aftere", "{max_dialect}");
        });
    }
}

#[test]
fn a_watch_says_that_it_missed_something() {
    story(async {
        let port = Port::new(World::new());
        let client = connect(&port, &Options::default()).await;
        let mut watch = client.watch("", true).await.unwrap();
        tokio::task::yield_now().await;
        port.cut();
        let changes = soon(watch.next()).await.unwrap();
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].kind, client::ChangeKind::Unknown);
        let other = port.join_another().await;
        other.mkdir("dir").await.unwrap();
        assert!(soon(watch.next()).await.unwrap().iter().any(|change| change.path.as_os_str() == "dir"));
    });
}

#[test]
fn a_watch_that_is_given_up_while_it_begins_again_misses_nothing() {
    for polls in 1..40 {
        story(async move {
            let port = Port::new(World::new());
            let client = connect(&port, &Options::default()).await;
            let mut watch = client.watch("", true).await.unwrap();
            tokio::task::yield_now().await;
            port.cut();
            let mut seen = None;
            {
                let mut next = Box::pin(watch.next());
                for _ in 0..polls {
                    let once = std::future::poll_fn(|cx| std::task::Poll::Ready(next.as_mut().poll(cx)));
                    if let std::task::Poll::Ready(changes) = once.await {
                        seen = Some(changes.unwrap());
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
            let changes = match seen {
                Some(changes) => changes,
                None => soon(watch.next()).await.unwrap(),
            };
            assert_eq!(changes.len(), 1, "given up after {polls}");
            assert_eq!(changes[0].kind, client::ChangeKind::Unknown, "given up after {polls}");
            let other = port.join_another().await;
            other.mkdir("dir").await.unwrap();
            assert!(soon(watch.next()).await.unwrap().iter().any(|change| change.path.as_os_str() == "dir"));
        });
    }
}

#[test]
fn a_small_file_is_there_whole_or_as_it_was_whatever_is_cut() {
    for n in 1..8 {
        for fate in [Fate::CutBefore, Fate::CutBehind] {
            story(async move {
                let port = Port::new(World::new());
                port.world().put("name", b"old");
                let client = connect(&port, &Options::default()).await;
                cut_once(&port, Way::Reply, n, fate);
                let data = pattern(4096);
                let done = soon(client.write_as("part", "name", &data, &client::Times::default())).await;
                let now = port.world().content("name").unwrap();
                assert!(now == data || done.is_err() && now == b"old", "{n}: {done:?}");
                // Whether a RENAME was done whose answer was lost is all that is not known.
                if let Err(error) = &done {
                    assert_eq!(why(error), &Failure::Interrupted, "{n}");
                }
            });
        }
    }
}

#[test]
fn the_server_copies_on_after_a_cut() {
    for n in 1..12 {
        story(async move {
            let port = Port::new(World::new());
            let data = pattern(40_000_003);
            port.world().put("from", &data);
            let client = connect(&port, &Options::default()).await;
            cut_once(&port, Way::Reply, n, Fate::CutBefore);
            assert_eq!(soon(client.copy("from", "to")).await.unwrap(), data.len() as u64, "{n}");
            assert!(port.world().content("to").unwrap() == data, "{n}");
        });
    }
}
