//! A session on several connections: what goes over which, and what becomes of it when one of them fails.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use client::{Client, Dialect, OpenHow, Options, Protection};
use smb_wire::NtStatus;
use smb_wire::smb2::{Command, Flags, Header, SessionSetupRequest};

use crate::returns::connect;
use crate::util::World;
use crate::wire::{Fate, Port, Way, soon};
use crate::{pattern, story};

fn options(protection: Protection) -> Options {
    Options { channels: 3, protection, max_transfer_bytes: 64 << 10, ..Options::default() }
}

/// A client whose channels have had the time to be made.
async fn settled(port: &Port, options: &Options) -> Client {
    let client = connect(port, options).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    client
}

async fn read_whole(client: &Client, data: &[u8], mut at: impl FnMut(usize)) {
    let file = soon(client.open("file")).await.unwrap();
    let mut stream = file.read_stream(0..u64::MAX);
    let mut count = 0;
    while let Some(chunk) = soon(stream.next()).await.unwrap() {
        assert!(chunk[..] == data[count..count + chunk.len()], "at {count}");
        count += chunk.len();
        at(count);
    }
    assert_eq!(count, data.len());
}

#[test]
fn requests_are_spread_over_the_channels_there_are() {
    let all = [Protection::AsServer, Protection::Signed, Protection::Sealed];
    for (max_dialect, protection) in [Dialect::V3_0, Dialect::V3_0_2, Dialect::V3_1_1].into_iter().zip(all) {
        story(async move {
            let port = Port::new(World::new());
            let data = pattern(3_000_000);
            port.world().put("file", &data);
            let client = settled(&port, &Options { max_dialect, ..options(protection) }).await;
            assert_eq!(port.lines.get(), 3, "{max_dialect}");
            assert_eq!(port.world().server.session_count(), 1);
            read_whole(&client, &data, |_| {}).await;
            for carried in port.carried.borrow().iter() {
                assert!((500_000..2_000_000).contains(carried), "{max_dialect}: {carried}");
            }
        });
    }
}

#[test]
fn where_one_fails_the_others_go_on_and_another_takes_its_place() {
    for protection in [Protection::AsServer, Protection::Signed, Protection::Sealed] {
        for victim in 0..3 {
            story(async move {
                let port = Port::new(World::new());
                let data = pattern(3_000_000);
                port.world().put("file", &data);
                let client = settled(&port, &options(protection)).await;
                let cutter = port.clone();
                let mut is_cut = false;
                read_whole(&client, &data, move |count| {
                    if count > 1_000_000 && !std::mem::replace(&mut is_cut, true) {
                        cutter.cut_line(victim);
                    }
                })
                .await;
                assert_eq!(port.world().server.session_count(), 1, "the session is still the same");
                let file = soon(client.create("written")).await.unwrap();
                let mut stream = file.write_stream(0);
                for (n, piece) in data.chunks(500_000).enumerate() {
                    if n == 3 {
                        port.cut_line((victim + 1) % 3);
                    }
                    soon(stream.write(piece)).await.unwrap();
                }
                soon(stream.finish()).await.unwrap();
                soon(file.close()).await.unwrap();
                assert!(port.world().content("written").unwrap() == data, "{protection:?} {victim}");
                tokio::time::sleep(Duration::from_secs(3)).await;
                assert_eq!(port.lines.get(), 5, "each was made again");
                assert_eq!(port.world().server.session_count(), 1);
            });
        }
    }
}

#[test]
fn where_all_fail_the_session_comes_back_with_all() {
    story(async {
        let port = Port::new(World::new());
        let client = settled(&port, &options(Protection::AsServer)).await;
        let file = soon(client.open_with("file", OpenHow::update())).await.unwrap();
        soon(file.write_at(0, b"before")).await.unwrap();
        port.cut();
        soon(file.write_at(0, b"after")).await.unwrap();
        soon(file.close()).await.unwrap();
        assert_eq!(port.world().content("file").unwrap(), b"aftere");
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(port.lines.get(), 6);
        assert_eq!(port.world().server.session_count(), 1);
    });
}

#[test]
fn a_server_that_refuses_channels_or_ends_them_is_not_asked_for_ever() {
    let binds = |frame: &[u8]| {
        Header::decode(&frame[4..]).is_ok_and(|header| header.command == Command::SessionSetup as u16)
            && SessionSetupRequest::decode(&frame[4..]).is_ok_and(|setup| setup.binding)
    };
    for fate in [Fate::CutBefore, Fate::CutBehind, Fate::Drop] {
        story(async move {
            let port = Port::new(World::new());
            port.world().put("file", b"contents");
            port.meddle(move |way, frame| if way == Way::Request && binds(frame) { fate } else { Fate::Pass });
            let client = settled(&port, &options(Protection::AsServer)).await;
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_secs(10)).await;
                assert_eq!(soon(client.stat("file")).await.unwrap().len_bytes, 8);
            }
            assert!(port.lines.get() < 5, "{fate:?}: {} lines", port.lines.get());
        });
    }
    // Who knows no channels is not asked for any.
    story(async move {
        let port = Port::new(World::new());
        settled(&port, &Options { max_dialect: Dialect::V2_1, ..options(Protection::AsServer) }).await;
        assert_eq!(port.lines.get(), 1);
    });
}

#[test]
fn a_replay_that_comes_too_early_is_sent_again() {
    story(async {
        let port = Port::new(World::new());
        let data = pattern(3_000_000);
        port.world().put("file", &data);
        let client = settled(&port, &options(Protection::AsServer)).await;
        let (cutter, refused) = (port.clone(), Rc::new(Cell::new(0)));
        let count = Rc::clone(&refused);
        port.meddle(move |way, frame| {
            let is_replay = Header::decode(&frame[4..]).is_ok_and(|header| header.flags.contains(Flags::REPLAY));
            // The first answers say that the request is still under way on the channel that failed.
            if way == Way::Reply && is_replay && count.get() < 5 {
                count.set(count.get() + 1);
                return Fate::Status(NtStatus::FILE_NOT_AVAILABLE.0);
            }
            Fate::Pass
        });
        let mut cuts = 0;
        read_whole(&client, &data, move |count| {
            if count > 500_000 * (cuts + 1) && cuts < 4 {
                cutter.cut_line(cuts);
                cuts += 1;
            }
        })
        .await;
        assert!(refused.get() > 0, "there were replays");
    });
}
