//! The machine by itself, joined to the server's without a runtime between them: credits, order, time.

use std::collections::HashMap;
use std::time::Duration;

use client::smb::{Config, Connection, Request, Seed, Token};
use client::{Cipher, Credentials, Dialect, Failure, Protection, SigningAlgorithm};
use smb_wire::NtStatus;
use smb_wire::smb2::{Command, put_four, set_next_command};

use crate::util::world::{PASSWORD, USER};
use crate::util::{Client as Far, Profile, World};

const TIMEOUT: Duration = Duration::from_secs(30);

fn config() -> Config {
    Config {
        server_name: "longshore".into(),
        credentials: Credentials::password(USER, PASSWORD),
        protection: Protection::Signed,
        min_dialect: Dialect::V2_0_2,
        max_dialect: Dialect::V3_1_1,
        ciphers: vec![Cipher::Aes128Gcm],
        signing: vec![SigningAlgorithm::AesGmac],
        max_transfer_bytes: 1 << 20,
        credits: 16,
        timeout: TIMEOUT,
        previous_session_id: 0,
        multi_channel: false,
        seed: Seed { client_guid: [1; 16], salt: [2; 32], client_challenge: [3; 8], session_key: [4; 16], now: 5 },
    }
}

/// A machine and the connection at the other end, with time that goes by as the test says.
struct Joined {
    near: Connection,
    far: Far,
    now: Duration,
}

impl Joined {
    fn new(world: &World) -> Self {
        Self::with(world, Protection::Signed)
    }

    fn with(world: &World, protection: Protection) -> Self {
        let far = world.client(Profile::default());
        let config = Config { protection, ..config() };
        Self { near: Connection::new(config, Duration::ZERO), far, now: Duration::ZERO }
    }

    /// Gives the server what there is to send; answers how many frames.
    fn send(&mut self) -> usize {
        let mut count = 0;
        while let Some(outgoing) = self.near.next_outgoing() {
            let frame = outgoing.parts().concat();
            assert_eq!(self.near_prefix(&frame), frame.len() - 4, "the prefix");
            self.far.feed(&frame[4..]);
            count += 1;
        }
        count
    }

    fn near_prefix(&self, frame: &[u8]) -> usize {
        u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize
    }

    /// The server's replies, prefixes taken off.
    fn replies(&mut self) -> Vec<Vec<u8>> {
        self.far.poll();
        let mut replies = Vec::new();
        while let Some(reply) = self.far.conn.next_reply() {
            replies.push(reply.head[4..].to_vec());
            self.far.poll();
        }
        replies
    }

    fn log_in(&mut self) {
        for _ in 0..3 {
            assert!(self.near.ready().is_none());
            assert_eq!(self.send(), 1, "one step of the login at a time");
            for reply in self.replies() {
                self.near.receive(reply, self.now);
            }
        }
        assert!(self.near.ready().is_some(), "{:?}", self.near.failure());
    }

    fn echo(&mut self) -> Token {
        self.near.submit(Request::new(Command::Echo, 0, 0, put_four), self.now)
    }
}

#[test]
fn no_more_is_sent_than_there_are_credits_and_all_is_answered_in_any_order() {
    let world = World::new();
    let mut joined = Joined::new(&world);
    joined.log_in();
    let mut waiting: HashMap<Token, ()> = (0..100).map(|_| (joined.echo(), ())).collect();
    let mut rounds = 0;
    while !waiting.is_empty() {
        let sent = joined.send();
        assert!((1..=16).contains(&sent), "{sent} at once");
        let mut replies = joined.replies();
        replies.reverse();
        for reply in replies {
            joined.near.receive(reply, joined.now);
        }
        while let Some((token, answer)) = joined.near.next_done() {
            assert_eq!(answer.unwrap().status(), NtStatus::SUCCESS);
            assert!(waiting.remove(&token).is_some(), "answered once");
        }
        rounds += 1;
    }
    assert!(rounds <= 100 / 16 + 2, "{rounds} rounds");
    assert!(!joined.near.is_busy());
    assert_eq!(joined.near.deadline(), None, "with nothing under way there is nothing to be late");
}

#[test]
fn silence_is_noticed_when_it_is_time_and_not_before() {
    let world = World::new();
    let mut joined = Joined::new(&world);
    joined.log_in();
    joined.now = Duration::from_secs(1000);
    let token = joined.echo();
    assert_eq!(joined.near.deadline(), Some(joined.now + TIMEOUT), "idle time does not count");
    joined.near.tick(joined.now + TIMEOUT - Duration::from_nanos(1));
    assert_eq!(joined.near.failure(), None);
    joined.near.tick(joined.now + TIMEOUT);
    assert_eq!(joined.near.failure(), Some(&Failure::Timeout(TIMEOUT)));
    let (over, answer) = joined.near.next_done().unwrap();
    assert_eq!((over, answer.unwrap_err()), (token, Failure::Timeout(TIMEOUT)));
    // What is asked after the end is answered too.
    let token = joined.echo();
    assert_eq!(joined.near.next_done().map(|(t, _)| t), Some(token));
    assert!(joined.near.next_outgoing().is_none());
}

#[test]
fn an_answer_that_was_taken_is_not_taken_again() {
    let world = World::new();
    let mut joined = Joined::new(&world);
    joined.log_in();
    joined.echo();
    joined.send();
    let reply = joined.replies().remove(0);
    joined.near.receive(reply.clone(), joined.now);
    assert!(joined.near.next_done().unwrap().1.is_ok());
    joined.near.receive(reply, joined.now);
    assert!(matches!(joined.near.failure(), Some(Failure::Protocol(_))));
}

#[test]
fn answers_in_one_frame_are_taken_one_by_one() {
    let world = World::new();
    let mut joined = Joined::with(&world, Protection::AsServer);
    joined.log_in();
    let tokens = [joined.echo(), joined.echo(), joined.echo()];
    joined.send();
    let replies = joined.replies();
    let mut compound = Vec::new();
    for (index, reply) in replies.iter().enumerate() {
        let mut reply = reply.clone();
        if index + 1 < replies.len() {
            reply.resize(reply.len().next_multiple_of(8), 0);
            let len = reply.len() as u32;
            set_next_command(&mut reply, len);
        }
        compound.extend(reply);
    }
    joined.near.receive(compound, joined.now);
    let done: Vec<_> =
        std::iter::from_fn(|| joined.near.next_done()).map(|(token, answer)| (token, answer.is_ok())).collect();
    assert_eq!(done, tokens.map(|token| (token, true)));
}
